package conversion_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

const (
	v1beta1Spec = `
type: object
properties:
  cronSpec: {type: string}
  image: {type: string}
  replicas: {type: integer}
  legacy: {type: string}
  labels: {type: object, additionalProperties: {type: object, properties: {size: {type: integer}, weight: {type: integer}}}}
  ports: {type: array, items: {type: object, properties: {name: {type: string}, hostPort: {type: integer}}}}
`
	// v1 lacks legacy, labels[*].weight and ports[*].hostPort, and defaults mode.
	v1Spec = `
type: object
default: {}
properties:
  cronSpec: {type: string}
  image: {type: string}
  replicas: {type: integer}
  mode: {type: string, default: fast}
  labels: {type: object, additionalProperties: {type: object, properties: {size: {type: integer}}}}
  ports: {type: array, items: {type: object, properties: {name: {type: string}}}}
`
)

func crontabs(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := testbed.CronTabs("v1beta1", "v1")
	for version, text := range map[string]string{"v1beta1": v1beta1Spec, "v1": v1Spec} {
		var spec apiextensionsv1.JSONSchemaProps
		if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
			t.Fatal(err)
		}
		testbed.Version(crd, version).Schema.OpenAPIV3Schema.Properties["spec"] = spec
	}
	return crd
}

// start starts a server with a CRD and n objects, created at v1beta1.
func start(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, n int, options testbed.InProcessOptions, objects testbed.ObjectOptions) *testbed.InProcess {
	t.Helper()
	bed, err := testbed.StartInProcess(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Stop)
	if _, err := testbed.CreateCRD(t.Context(), bed.Config(), crd); err != nil {
		t.Fatal(err)
	}
	if err := testbed.CreateObjects(t.Context(), bed.Config(), testbed.CronTabResource("v1beta1"), n, objects); err != nil {
		t.Fatal(err)
	}
	return bed
}

func crontabResource() kschema.GroupResource { return testbed.CronTabResource("").GroupResource() }

func rehearse(t *testing.T, config *rest.Config, options conversion.RehearseOptions) *v1alpha1.Rehearsal {
	t.Helper()
	c, err := cluster.New(config, "")
	if err != nil {
		t.Fatal(err)
	}
	options.Resource = crontabResource()
	result, err := conversion.Rehearse(t.Context(), c, options)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "s3cret") {
		t.Errorf("the result has a value of a field: %s", text)
	}
	return result
}

// stored returns everything that etcd has of the resource.
func stored(t *testing.T, bed *testbed.InProcess) map[string]string {
	t.Helper()
	objects, err := testbed.Stored(t.Context(), bed.Etcd(), testbed.CronTabGroup, testbed.CronTabPlural)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, o := range objects {
		all[o.Key] = fmt.Sprint(o.ModRevision, string(o.Raw))
	}
	return all
}

// storeAtV1 makes v1 the storage version and waits until the server does so.
func storeAtV1(t *testing.T, bed *testbed.InProcess) {
	t.Helper()
	_, err := testbed.UpdateCRD(t.Context(), bed.Config(), testbed.CronTabCRD, func(crd *apiextensionsv1.CustomResourceDefinition) {
		testbed.SetStorageVersion(crd, "v1")
	})
	if err != nil {
		t.Fatal(err)
	}
	probe := testbed.NewCronTab("v1", "probe", "probe", 1)
	if err := testbed.WaitForStorageVersion(t.Context(), bed, testbed.CronTabResource("v1"), probe, "v1"); err != nil {
		t.Fatal(err)
	}
}

// differences returns differences as "lost spec.a 2: default/a default/b".
func differences(all []v1alpha1.FieldDifference) []string {
	var texts []string
	for _, d := range all {
		texts = append(texts, fmt.Sprintf("%s %s %d: %s", d.Change, d.Path, d.Objects, strings.Join(d.Examples, " ")))
	}
	return texts
}

// secretObject builds objects of which every second has fields that v1 lacks.
func secretObject(version, namespace, name string, i int) *unstructured.Unstructured {
	object := testbed.NewCronTab(version, namespace, name, i)
	spec := map[string]any{"replicas": int64(i)}
	if i%2 == 0 {
		spec["legacy"] = "s3cret"
		spec["ports"] = []any{map[string]any{"name": "s3cret", "hostPort": int64(80)}, map[string]any{"hostPort": int64(81)}}
		spec["labels"] = map[string]any{"s3cret": map[string]any{"size": int64(1), "weight": int64(2)}}
	}
	object.Object["spec"] = spec
	return object
}

package e2e_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// specs returns a CRD whose versions have these schemas of spec, as YAML. The first
// version is the storage version.
func specs(t *testing.T, group string, versions ...[2]string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var names []string
	for _, v := range versions {
		names = append(names, v[0])
	}
	c := crontabs(group, names...)
	for i, v := range versions {
		var spec apiextensionsv1.JSONSchemaProps
		if err := yaml.UnmarshalStrict([]byte(v[1]), &spec); err != nil {
			t.Fatal(err)
		}
		root := c.Spec.Versions[i].Schema.OpenAPIV3Schema
		root.Properties["spec"] = spec
		c.Spec.Versions[i].AdditionalPrinterColumns = nil
	}
	return c
}

// hook starts a conversion webhook that calls convert for each object.
func hook(t *testing.T, convert func(object map[string]any, from, to string)) *apiextensionsv1.CustomResourceConversion {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		testbed.AnswerConversion(w, r, func(object *unstructured.Unstructured, to string) error {
			convert(object.Object, filepath.Base(object.GetAPIVersion()), filepath.Base(to))
			return nil
		})
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return testbed.ConversionAt(server.URL, ca)
}

// hostPort converts as in the Kubernetes documentation: hostPort in v1beta1, host
// and port in v1.
func hostPort(object map[string]any, _, to string) {
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		return
	}
	if to == "v1" {
		if text, ok := spec["hostPort"].(string); ok {
			host, port, _ := strings.Cut(text, ":")
			spec["host"], spec["port"] = host, port
			delete(spec, "hostPort")
		}
		return
	}
	if host, ok := spec["host"].(string); ok {
		spec["hostPort"] = fmt.Sprintf("%s:%v", host, spec["port"])
		delete(spec, "host")
		delete(spec, "port")
	}
}

func (b *bed) hostPorts(t *testing.T, group string, conversion *apiextensionsv1.CustomResourceConversion, n int) string {
	t.Helper()
	c := specs(t, group,
		[2]string{"v1beta1", `{type: object, properties: {hostPort: {type: string}, replicas: {type: integer}}}`},
		[2]string{"v1", `{type: object, properties: {host: {type: string}, port: {type: string}, replicas: {type: integer}}}`})
	c.Spec.Conversion = conversion
	name := b.createCRD(t, c)
	b.create(t, group, "v1beta1", n, func(i int) map[string]any {
		return map[string]any{"hostPort": "s3cret-host:" + strconv.Itoa(i), "replicas": int64(9007199254740993)}
	})
	return name
}

// create creates objects with a spec, in two namespaces.
func (b *bed) create(t *testing.T, group, version string, n int, spec func(i int) map[string]any) {
	t.Helper()
	err := testbed.CreateObjects(t.Context(), b.Config(), resource(group, version), n, testbed.ObjectOptions{
		Namespaces: []string{"a", "b"},
		New: func(version, namespace, name string, i int) *unstructured.Unstructured {
			object := newCronTab(group, version, namespace, name, i)
			object.Object["spec"] = spec(i)
			object.SetLabels(map[string]string{"app": "s3cret"})
			object.SetAnnotations(map[string]string{"example.com/note": "s3cret"})
			return object
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// roundtrip runs roundtrip, which must write nothing, and returns its only item and
// what it found, as "v1beta1 v1: lost spec.a pruning v1 5".
func (b *bed) roundtrip(t *testing.T, code int, args ...string) (v1alpha1.RoundTrip, []string) {
	t.Helper()
	before := b.revisions(t)
	got := b.must(t, code, append([]string{"roundtrip", "-o", "json"}, args...)...)
	b.wantUnwritten(t, before)
	if strings.Contains(got.String(), "s3cret") {
		t.Errorf("a value is shown: %s", got)
	}
	var report v1alpha1.RoundTripReport
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || len(report.Items) != 1 {
		t.Fatalf("%v: %s", err, got)
	}
	return report.Items[0], found(report.Items[0])
}

func found(item v1alpha1.RoundTrip) []string {
	var all []string
	for _, p := range item.Pairs {
		for _, d := range slices.Concat(p.Differences, p.Metadata) {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s: %s %s %s %s %d", p.From, p.To, d.Change, d.Path, d.Stage, d.Version, d.Objects)))
		}
		for _, f := range p.Failures {
			all = append(all, fmt.Sprintf("%s %s: failed %s %d", p.From, p.To, f.Reason, f.Objects))
		}
	}
	return all
}

func same(t *testing.T, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

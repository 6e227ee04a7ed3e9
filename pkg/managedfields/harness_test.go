package managedfields_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/managedfields"
	"github.com/crdver/kubectl-crdver/pkg/schema"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

const (
	group   = testbed.CronTabGroup
	ourName = "kubectl-crdver"
)

// specSchema has a field of every kind of ownership. legacy and hostPort are
// only in the older versions; args is a set there and atomic in v1.
const specSchema = `
type: object
properties:
  cronSpec: {type: string}
  image: {type: string}
  replicas: {type: integer}
  legacy: {type: string}
  labels: {type: object, additionalProperties: {type: string}}
  tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
  args: {type: array, x-kubernetes-list-type: set, items: {type: string}}
  ports:
    type: array
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [name]
    items:
      type: object
      required: [name]
      properties: {name: {type: string}, port: {type: integer}, hostPort: {type: integer}}
`

// server is an API server with CronTabs.
type server struct {
	*testing.T

	bed    testbed.Bed
	client dynamic.Interface
}

// start starts an in-process server with CronTabs: see create.
func start(t *testing.T, versions ...string) *server {
	t.Helper()
	bed, err := testbed.StartInProcess(t.Context(), testbed.InProcessOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Stop)
	return create(t, bed, versions...)
}

// create creates CronTabs at versions, of which the first is the storage version
// and the last one is v1.
func create(t *testing.T, bed testbed.Bed, versions ...string) *server {
	t.Helper()
	crd := testbed.CronTabs(versions...)
	for _, version := range versions {
		var spec apiextensionsv1.JSONSchemaProps
		if err := yaml.UnmarshalStrict([]byte(specSchema), &spec); err != nil {
			t.Fatal(err)
		}
		if version == "v1" {
			delete(spec.Properties, "legacy")
			args := spec.Properties["args"]
			args.XListType = nil
			spec.Properties["args"] = args
			delete(spec.Properties["ports"].Items.Schema.Properties, "hostPort")
		}
		testbed.Version(crd, version).Schema.OpenAPIV3Schema.Properties["spec"] = spec
	}
	s := &server{T: t, bed: bed}
	_, err := testbed.CreateCRD(t.Context(), bed.Config(), crd)
	s.must(err)
	s.client, err = dynamic.NewForConfig(bed.Config())
	s.must(err)
	return s
}

func (s *server) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *server) at(version string) dynamic.ResourceInterface {
	return s.client.Resource(testbed.CronTabResource(version)).Namespace("default")
}

// apply applies a spec, in YAML, or none, at a version.
func (s *server) apply(version, name, manager, spec string) error {
	s.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	if spec != "" {
		s.must(yaml.Unmarshal([]byte("spec: "+spec), &object.Object))
	}
	object.SetAPIVersion(group + "/" + version)
	object.SetKind(testbed.CronTabKind)
	object.SetName(name)
	_, err := s.at(version).Apply(s.Context(), name, object, metav1.ApplyOptions{FieldManager: manager})
	return err
}

func (s *server) patch(version, name, manager, body string, subresources ...string) {
	s.Helper()
	_, err := s.at(version).Patch(s.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: manager}, subresources...)
	s.must(err)
}

// stored reads an object from etcd.
func (s *server) stored(name string) *unstructured.Unstructured {
	s.Helper()
	objects, err := testbed.Stored(s.Context(), s.bed.Etcd(), group, testbed.CronTabPlural)
	s.must(err)
	i := slices.IndexFunc(objects, func(o testbed.StoredObject) bool { return o.Name == name })
	if i < 0 {
		s.Fatalf("%s is not in etcd", name)
	}
	object := &unstructured.Unstructured{}
	s.must(objects[i].Unmarshal(&object.Object))
	return object
}

// owners returns the managedFields of an object in etcd, without times.
func (s *server) owners(name string) []string {
	s.Helper()
	var owners []string
	for _, e := range s.stored(name).GetManagedFields() {
		owners = append(owners, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.Manager, e.Operation, strings.TrimPrefix(e.APIVersion, group+"/"), e.Subresource)))
	}
	slices.Sort(owners) // The server sorts by time first.
	return owners
}

func (s *server) wantOwners(name string, want ...string) {
	s.Helper()
	if diff := cmp.Diff(want, s.owners(name)); diff != "" {
		s.Errorf("the managers of %s in etcd (-want +got):\n%s", name, diff)
	}
}

func (s *server) wantSpec(name, want string) {
	s.Helper()
	var spec map[string]any
	s.must(yaml.Unmarshal([]byte(want), &spec))
	got, err := json.Marshal(s.stored(name).Object["spec"])
	s.must(err)
	wantJSON, err := json.Marshal(spec)
	s.must(err)
	if diff := cmp.Diff(string(wantJSON), string(got)); diff != "" {
		s.Errorf("the spec of %s in etcd (-want +got):\n%s", name, diff)
	}
}

// storeAtV1 makes v1 the storage version.
func (s *server) storeAtV1() {
	s.Helper()
	_, err := testbed.UpdateCRD(s.Context(), s.bed.Config(), testbed.CronTabCRD, func(crd *apiextensionsv1.CustomResourceDefinition) {
		testbed.SetStorageVersion(crd, "v1")
	})
	s.must(err)
	probe := testbed.NewCronTab("v1", "default", "probe", 1)
	s.must(testbed.WaitForStorageVersion(s.Context(), s.bed, testbed.CronTabResource("v1"), probe, "v1"))
}

// keepOnlyV1 removes all other versions.
func (s *server) keepOnlyV1() {
	s.Helper()
	client, err := clientset.NewForConfig(s.bed.Config())
	s.must(err)
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	crd, err := crds.Get(s.Context(), testbed.CronTabCRD, metav1.GetOptions{})
	s.must(err)
	crd.Status.StoredVersions = []string{"v1"}
	_, err = crds.UpdateStatus(s.Context(), crd, metav1.UpdateOptions{})
	s.must(err)
	_, err = testbed.UpdateCRD(s.Context(), s.bed.Config(), testbed.CronTabCRD, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions = slices.DeleteFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name != "v1" })
	})
	s.must(err)
}

// waitUntilGone waits until the server's handler, which follows the CRD on its
// own, no longer knows the versions that an object's entries name.
func (s *server) waitUntilGone(name string) {
	s.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion(group + "/v1")
	object.SetKind(testbed.CronTabKind)
	object.SetName(name)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		_, err := s.at("v1").Apply(s.Context(), name, object, metav1.ApplyOptions{FieldManager: "probe", DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), "invalid group/version") {
			return
		}
	}
	s.Fatal("the server still knows the removed versions")
}

// knowsV1 asks the schema of v1 as it is on the server.
func (s *server) knowsV1() func(fieldpath.Path) bool {
	s.Helper()
	client, err := clientset.NewForConfig(s.bed.Config())
	s.must(err)
	crd, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(s.Context(), testbed.CronTabCRD, metav1.GetOptions{})
	s.must(err)
	v1, err := schema.ForVersion(crd, "v1")
	s.must(err)
	return v1.Knows
}

// metadata lists an object's metadata as the engine does.
func (s *server) metadata(name string) (cluster.Objects, *metav1.PartialObjectMetadata) {
	s.Helper()
	c, err := cluster.New(s.bed.Config(), "")
	s.must(err)
	objects := c.Objects(testbed.CronTabResource("v1"))
	var found *metav1.PartialObjectMetadata
	// A server that has just seen a CRD change answers 429 for a moment.
	s.must(cluster.EachPage(s.Context(), objects, cluster.PageOptions{}, func(page *metav1.PartialObjectMetadataList) error {
		for i := range page.Items {
			if page.Items[i].Name == name {
				found = &page.Items[i]
			}
		}
		return nil
	}))
	if found == nil {
		s.Fatalf("%s is not listed", name)
	}
	return objects, found
}

// move moves an object's entries as the engine does, and returns the answer.
func (s *server) move(name string, stale func(string) bool) *metav1.PartialObjectMetadata {
	s.Helper()
	objects, meta := s.metadata(name)
	body, needed, err := managedfields.PatchAll(meta, stale, group+"/v1", s.knowsV1())
	s.must(err)
	if !needed {
		s.Fatalf("nothing to move in %s", name)
	}
	answer, err := objects.PatchMetadata(s.Context(), types.NamespacedName{Namespace: "default", Name: name}, cluster.PatchRequest{
		Type: types.MergePatchType, Body: body, FieldManager: ourName,
	})
	s.must(err)
	return answer
}

func isV1beta1(apiVersion string) bool { return apiVersion == group+"/v1beta1" }
func isNotV1(apiVersion string) bool   { return apiVersion != group+"/v1" }

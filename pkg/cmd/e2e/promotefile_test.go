package e2e_test

import (
	"path"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestPromoteFileWithFieldsThatNobodySees adds a version from a manifest while objects
// may be stored at one that is not served and has a field more: reads at the others do
// not show it, so that no rehearsal does, and a rewrite drops it.
func TestPromoteFileWithFieldsThatNobodySees(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "unseen-file.example.com"
	name := b.createCRD(t, narrower(group))
	b.createObjects(t, group, "v1beta1", 5, "a")
	b.setLegacy(t, group, "object-000003")
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
		testbed.SetStorageVersion(c, "v1")
		testbed.Version(c, "v1beta1").Served = false
	})
	file := b.manifest(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
		added := testbed.Version(c, "v1").DeepCopy()
		added.Name, added.Storage = "v2", false
		c.Spec.Versions = append(c.Spec.Versions, *added)
	})
	before := b.revisions(t)
	for _, engine := range []string{"client", "in-tree"} {
		got := b.must(t, 3, "promote", "v2", name, "-f", file, "--yes", "--engine", engine)
		contains(t, got.stdout+got.stderr, "spec.legacy", "--allow-loss PATH")
	}
	b.wantUnwritten(t, before)
	b.wantLegacy(t, group, "object-000003")
	b.wantVersions(t, name, []string{"v1beta1 unserved", "v1 storage"}, []string{"v1beta1", "v1"})

	b.must(t, 0, "promote", "v2", name, "-f", file, "--yes", "--allow-loss", "spec.legacy")
	b.wantStored(t, group, map[string]int{"v2": 5})
}

// TestPromoteFileThatDescribesWhatWasKept adds a version whose schema keeps unknown
// fields as the old one does, but describes one of them, and so drops what it holds
// beside: no field is missing, and yet some are lost.
func TestPromoteFileThatDescribesWhatWasKept(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, odd = "described.example.com", "object-000010" // A sample of 1,000 of 1,100 leaves it out.
	c := crontabs(group, "v1beta1")
	keep := true
	c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["config"] = apiextensionsv1.JSONSchemaProps{
		Type: "object", XPreserveUnknownFields: &keep,
	}
	name := b.createCRD(t, c)
	b.createObjects(t, group, "v1beta1", 1100, "a")
	_, err := b.objects(t).Resource(resource(group, "v1beta1")).Namespace("a").Patch(t.Context(), odd, types.MergePatchType,
		[]byte(`{"spec":{"config":{"log":{"level":"info","extra":"precious"}}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file := b.manifest(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
		added := c.Spec.Versions[0].DeepCopy()
		added.Name, added.Storage = "v1", false
		added.Schema.OpenAPIV3Schema.Properties["spec"].Properties["config"] = apiextensionsv1.JSONSchemaProps{
			Type: "object", XPreserveUnknownFields: &keep, Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"log": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"level": {Type: "string"}}},
			},
		}
		c.Spec.Versions = append(c.Spec.Versions, *added)
	})
	got := b.must(t, 0, "promote", "v1", name, "-f", file, "--dry-run=client")
	contains(t, got.stdout+got.stderr, "Warning: the schema of v1 may drop or change spec.config.log of what v1beta1 keeps: once v1 is served, each object is looked at before v1 becomes the storage version")
	got = b.must(t, 3, "promote", "v1", name, "-f", file, "--yes")
	contains(t, got.stdout+got.stderr, "a rewrite would lose or change 1 field path, the first is spec.config.log.extra in 1 object")
	b.wantStored(t, group, map[string]int{"v1beta1": 1100})
	b.wantVersions(t, name, []string{"v1beta1 storage", "v1"}, []string{"v1beta1"})
	stored, err := b.Etcd().Get(t.Context(), "/registry/"+group+"/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range stored.Kvs {
		if path.Base(string(kv.Key)) == odd && !strings.Contains(string(kv.Value), `"extra":"precious"`) {
			t.Errorf("%s has lost a field: %s", odd, kv.Value)
		}
	}
	// The engine in-tree looks at nothing before it writes.
	got = b.must(t, 3, "promote", "v1", name, "--yes", "--engine", "in-tree")
	contains(t, got.stdout+got.stderr, "spec.config.log")
}

package e2e_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// narrower returns a CRD whose v1 lacks spec.legacy of v1beta1.
func narrower(group string) *apiextensionsv1.CustomResourceDefinition {
	c := crontabs(group, "v1beta1", "v1")
	testbed.Version(c, "v1beta1").Schema.OpenAPIV3Schema.Properties["spec"].Properties["legacy"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	return c
}

// setLegacy writes spec.legacy of an object in the namespace a.
func (b *bed) setLegacy(t *testing.T, group, name string) {
	t.Helper()
	_, err := b.objects(t).Resource(resource(group, "v1beta1")).Namespace("a").Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"spec":{"legacy":"precious"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// wantLegacy reads from etcd that objects have spec.legacy.
func (b *bed) wantLegacy(t *testing.T, group string, names ...string) {
	t.Helper()
	stored, err := b.Etcd().Get(t.Context(), "/registry/"+group+"/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, kv := range stored.Kvs {
		have[path.Base(string(kv.Key))] = strings.Contains(string(kv.Value), `"legacy":"precious"`)
	}
	for _, name := range names {
		if !have[name] {
			t.Errorf("%s has lost spec.legacy", name)
		}
	}
}

// TestEveryObjectIsLookedAt has one object among many more than a sample takes,
// wherever it is, that a rewrite would take a field from: the schemas do not rule
// that out, so that no object is left out.
func TestEveryObjectIsLookedAt(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "many.example.com"
	name := b.createCRD(t, narrower(group))
	b.createObjects(t, group, "v1beta1", 1200, "a")
	odd := []string{"object-000005", "object-000317", "object-001003"}
	for _, object := range odd {
		b.setLegacy(t, group, object)
		before := b.revisions(t)
		for _, args := range [][]string{{"promote", "v1", name, "--yes"}, {"promote", "v1", name, "--dry-run=server"}} {
			got := b.must(t, 3, args...)
			contains(t, got.stdout+got.stderr, "Rehearsal: 1200 of 1200 objects", "spec.legacy lost in", "a/"+odd[0])
		}
		b.wantUnwritten(t, before)
	}
	b.wantLegacy(t, group, odd...)
	got := b.must(t, 3, "promote", "v1", name, "--yes", "--engine", "in-tree")
	contains(t, got.stdout+got.stderr, "in-tree")
	// Allowed is allowed; a sample does then.
	b.must(t, 0, "promote", "v1", name, "--yes", "--allow-loss", "spec.legacy")
	b.wantStored(t, group, map[string]int{"v1": 1200})
}

// TestRehearseAll has no reason to look at every object but that it is asked to.
func TestRehearseAll(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "alike.example.com"
	name := b.createCRD(t, crontabs(group, "v1beta1", "v1"))
	b.createObjects(t, group, "v1beta1", 1100, "a")
	contains(t, b.must(t, 0, "promote", "v1", name, "--dry-run=server").stdout, "Rehearsal: 1000 of 1100 objects", "--rehearse-all")
	contains(t, b.must(t, 0, "promote", "v1", name, "--dry-run=server", "--rehearse-all").stdout, "Rehearsal: 1100 of 1100 objects")

}

// TestConversionOfEveryObject has a webhook that forgets the field of a single
// object among many, and one that cannot be seen, and runs that are narrowed.
func TestConversionOfEveryObject(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	hook := startWebhook(t)
	const group, n = "forgotten.example.com", 600
	name := b.createCRD(t, hook.converted(group))
	b.createObjects(t, group, "v1beta1", n, "a")
	b.createObjects(t, group, "v1beta1", 3, "b")
	hook.forgetsOf.Store("object-000377")
	before := b.revisions(t)
	got := b.must(t, 3, "promote", "v1", name, "--yes")
	contains(t, got.stdout+got.stderr, "Rehearsal: 603 of 603 objects",
		"Conversion webhook: 603 of 603 objects sent from v1beta1 to v1 and back, 1 field path lost or changed", "spec.image lost in 1 object: a/object-000377")
	b.wantUnwritten(t, before)
	// A run that is narrowed is about its objects.
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1") })
	got = b.must(t, 0, "migrate", name, "--dry-run=server", "-n", "b")
	contains(t, got.stdout+got.stderr, "Conversion webhook: 3 of 3 objects sent from v1beta1 to v1 and back, 0 field paths")
	// Where the old version is not served, nothing shows what is lost on the way.
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.Version(c, "v1beta1").Served = false })
	got = b.must(t, 0, "migrate", name, "--dry-run=server")
	contains(t, got.stdout+got.stderr, "not what the webhook loses")
}

// TestConversionThatOnlyTheServerSees has a webhook that does not answer this tool:
// what the server's own dry runs lose blocks all the same, and nothing is said to have
// been sent that was not.
func TestConversionThatOnlyTheServerSees(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	hook := startWebhook(t)
	const group = "unreachable.example.com"
	name := b.createCRD(t, hook.converted(group))
	b.createObjects(t, group, "v1beta1", 4, "a")
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1") })
	hook.serverOnly.Store(true)
	got := b.must(t, 0, "migrate", name, "--dry-run=server")
	contains(t, got.stdout+got.stderr, "Conversion webhook: 0 of 4 objects sent", "could not be found out", "as far as the conversion webhook could be asked")
	hook.forgetsOf.Store("object-000002")
	before := b.revisions(t)
	got = b.must(t, 3, "migrate", name, "--yes")
	contains(t, got.stdout+got.stderr, "spec.image lost in 1 object: a/object-000002")
	b.wantUnwritten(t, before)
	// Once somebody has trimmed the list, it says nothing of where objects are stored.
	hook.serverOnly.Store(false)
	b.patchStored(t, name, "v1")
	got = b.must(t, 3, "migrate", name, "--yes")
	contains(t, got.stdout+got.stderr, "Conversion webhook: 4 of 4 objects sent from v1beta1 to v1 and back", "spec.image lost in 1 object: a/object-000002")
}

// unseen creates a CRD with five objects in the namespace a that are stored at
// v1beta1, which is not served any more. object-000003 has spec.legacy.
func (b *bed) unseen(t *testing.T, group string) string {
	t.Helper()
	name := b.createCRD(t, narrower(group))
	b.createObjects(t, group, "v1beta1", 5, "a")
	b.setLegacy(t, group, "object-000003")
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
		testbed.SetStorageVersion(c, "v1")
		testbed.Version(c, "v1beta1").Served = false
	})
	return name
}

// TestFieldsThatCannotBeSeen has objects stored at a version that is not served,
// and which has more fields.
func TestFieldsThatCannotBeSeen(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "unseen.example.com"
	name := b.unseen(t, group)
	before := b.revisions(t)
	for _, args := range [][]string{{"migrate", name, "--yes"}, {"retire", "v1beta1", name, "--yes"}} {
		got := b.must(t, 3, args...)
		contains(t, got.stdout+got.stderr, "stored at v1beta1, which is not served", "spec.legacy", "kubectl crdver restore v1beta1 "+name, "--allow-loss")
	}
	b.wantUnwritten(t, before)
	b.wantLegacy(t, group, "object-000003")
	// As it says: once it is served, it can be seen.
	b.must(t, 0, "restore", "v1beta1", name, "--yes")
	got := b.must(t, 3, "migrate", name, "--yes")
	contains(t, got.stdout+got.stderr, "spec.legacy lost in 1 object: a/object-000003")
	b.wantLegacy(t, group, "object-000003")
	b.must(t, 0, "migrate", name, "--yes", "--allow-loss", "spec.legacy")
	b.wantStored(t, group, map[string]int{"v1": 5})
}

// TestFieldWrittenMeanwhile has somebody write such a field after the rehearsals: the
// object is left as it is, and nothing is trimmed.
func TestFieldWrittenMeanwhile(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, odd = "meanwhile.example.com", "object-000009"
	name := b.createCRD(t, narrower(group))
	b.createObjects(t, group, "v1beta1", 20, "a")
	behind, proxy := b.behindProxy(t)
	var once sync.Once
	proxy.StepIn(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		// Once v1 is the storage version, the server drops the field from what clients
		// write. This is the last moment before.
		if patchesCRD(r) && path.Base(r.URL.Path) == name {
			once.Do(func() { b.setLegacy(t, group, odd) })
		}
		next.ServeHTTP(w, r)
	})
	got := behind.must(t, 4, "promote", "v1", name, "--yes")
	contains(t, got.stdout+got.stderr, "1 object refused", "FieldLoss", "a/"+odd, "a rewrite through v1 would lose or change spec.legacy", "--allow-loss PATH")
	b.wantLegacy(t, group, odd)
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1beta1", "v1"})
	// The next run finds it before it writes anything.
	if got := b.must(t, 3, "promote", "v1", name, "--yes"); !strings.Contains(got.stdout+got.stderr, "spec.legacy lost in 1 object: a/"+odd) {
		t.Error(got)
	}
	b.wantLegacy(t, group, odd)
	object, err := b.objects(t).Resource(resource(group, "v1beta1")).Namespace("a").Get(t.Context(), odd, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(object.Object, "spec", "legacy")
	if _, err := b.objects(t).Resource(resource(group, "v1beta1")).Namespace("a").Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.must(t, 0, "promote", "v1", name, "--yes")
	b.wantStored(t, group, map[string]int{"v1": 20})
}

// TestFieldWrittenWhileNobodyCanLook has somebody write such a field after the
// rehearsals, and the server not answer what the rewrite would do to it: what cannot be
// looked at is not written, although the write would be taken.
func TestFieldWrittenWhileNobodyCanLook(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, odd = "unlooked.example.com", "object-000009"
	name := b.createCRD(t, narrower(group))
	b.createObjects(t, group, "v1beta1", 20, "a")
	behind, proxy := b.behindProxy(t)
	var once sync.Once
	var blind atomic.Bool
	proxy.StepIn(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if patchesCRD(r) && path.Base(r.URL.Path) == name {
			once.Do(func() { b.setLegacy(t, group, odd); blind.Store(true) })
		}
		if blind.Load() && r.Method == http.MethodPatch && r.URL.Query().Has("dryRun") && path.Base(r.URL.Path) == odd {
			failure := apierrors.NewInternalError(errors.New(`failed calling webhook "moody.example.com": no answer`)).Status()
			failure.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"} // Or a client does not look at it.
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(int(failure.Code))
			_ = json.NewEncoder(w).Encode(failure)
			return
		}
		next.ServeHTTP(w, r)
	})
	got := behind.must(t, 4, "promote", "v1", name, "--yes")
	contains(t, got.stdout+got.stderr, "1 object failed", "a/"+odd, "moody.example.com")
	b.wantLegacy(t, group, odd)
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1beta1", "v1"})
}

// TestFieldsOfATrimmedVersion has objects stored at a version that is neither served
// nor listed any more, because somebody trimmed the list.
func TestFieldsOfATrimmedVersion(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "trimmed.example.com"
	name := b.unseen(t, group)
	b.patchStored(t, name, "v1")
	before := b.revisions(t)
	for _, args := range [][]string{{"migrate", name}, {"promote", "v1", name}, {"retire", "v1beta1", name}} {
		got := b.must(t, 3, append(args, "--yes")...)
		contains(t, got.stdout+got.stderr, "objects may be stored at v1beta1, which is not served")
	}
	b.wantUnwritten(t, before)
	b.wantLegacy(t, group, "object-000003")
}

// TestStorageVersionUnserved has a storage version that is not served: what is written
// through another one is pruned as its schema says.
func TestStorageVersionUnserved(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, odd = "pruned.example.com", "object-000010" // A sample of 1,000 of 1,100 leaves it out.
	name := b.createCRD(t, narrower(group))
	b.createObjects(t, group, "v1beta1", 1100, "a")
	b.setLegacy(t, group, odd)
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
		testbed.SetStorageVersion(c, "v1")
		testbed.Version(c, "v1").Served = false
	})
	got := b.must(t, 3, "migrate", name, "--yes")
	contains(t, got.stdout+got.stderr, "spec.legacy lost in 1 object: a/"+odd)
	b.wantLegacy(t, group, odd)
}

// TestRetireWithMoreFields retires a version whose fields no object has, while both
// are listed: it is not served any more when the objects are verified.
func TestRetireWithMoreFields(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "retired.example.com"
	name := b.createCRD(t, narrower(group))
	b.createObjects(t, group, "v1beta1", 12, "a")
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1") })
	b.must(t, 0, "retire", "v1beta1", name, "--yes")
	b.wantStored(t, group, map[string]int{"v1": 12})
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
}

// TestSchemaChangesMeanwhile has somebody take a field out of the schema while objects
// are rewritten: the rest is not.
func TestSchemaChangesMeanwhile(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, n = "changing.example.com", 200
	name := b.scene(t, group, n)
	behind, proxy := b.behindProxy(t)
	var rewrites atomic.Int64
	proxy.StepIn(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if patchesObject(r) && rewrites.Add(1) == 60 {
			b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
				delete(testbed.Version(c, "v1").Schema.OpenAPIV3Schema.Properties["spec"].Properties, "image")
			})
		}
		next.ServeHTTP(w, r)
	})
	got := behind.must(t, 3, "promote", "v1", name, "--yes", "--qps", "10")
	if !strings.Contains(got.stdout+got.stderr, "somebody changed the CRD while objects were rewritten") {
		t.Fatal(got)
	}
	if at := rewrites.Load(); at > 150 {
		t.Errorf("it ended after %d rewrites", at)
	}
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1beta1", "v1"})
}

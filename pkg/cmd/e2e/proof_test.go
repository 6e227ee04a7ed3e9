package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// handTrimmed is a scene whose objects are all stored at v1beta1, while v1 is the
// storage version and, by hand, the only one that is listed.
func (b *bed) handTrimmed(t *testing.T, group string, n int) string {
	t.Helper()
	name := b.scene(t, group, n)
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1") })
	b.patchStored(t, name, "v1")
	b.wantStored(t, group, map[string]int{"v1beta1": n})
	b.nextSecond(t, name)
	return name
}

// nextSecond waits until the second is over that somebody wrote the list in: the times
// in managedFields have no fractions.
func (b *bed) nextSecond(t *testing.T, name string) {
	t.Helper()
	for _, entry := range b.crd(t, name).ManagedFields {
		if entry.Manager == "by-hand" {
			eventually(t, func() bool { return time.Now().Unix() > entry.Time.Unix() })
		}
	}
}

// wantTrust makes sure of what status says of status.storedVersions.
func (b *bed) wantTrust(t *testing.T, name string, trusted bool, why string) {
	t.Helper()
	var list v1alpha1.StatusList
	got := b.must(t, 0, "status", name, "-o", "json")
	if err := json.Unmarshal([]byte(got.stdout), &list); err != nil || len(list.Items) != 1 {
		t.Fatalf("%v: %s", err, got)
	}
	trust := list.Items[0].StoredVersionsTrust
	if trust.Trusted != trusted || !strings.Contains(strings.Join(trust.Reasons, "; "), why) {
		t.Errorf("%s: got %+v, want trusted %t because of %q", name, trust, trusted, why)
	}
}

// TestCompleteProofIsRecorded has a list that somebody trimmed by hand. One migration
// makes it true, and from then on every command knows; what happens later to the list
// is judged anew.
func TestCompleteProofIsRecorded(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, n = "proof.example.com", 12
	name := b.handTrimmed(t, group, n)
	b.wantTrust(t, name, false, `last written by "by-hand"`)
	removed := b.manifest(t, name, without("v1beta1"))
	finding(t, b.preflight(t, 2, removed), "stored-version-removed")
	contains(t, b.must(t, 2, "can-remove", "v1beta1", name).stdout, "cannot be trusted")

	before := b.revisions(t)
	contains(t, b.must(t, 0, "migrate", name, "--dry-run=server").stdout, "note in the CRD that every object is stored at v1",
		"+ metadata.annotations[crdver.dev/verified]: v1, verified now", "undo    kubectl annotate crd "+name+" crdver.dev/verified-", "1 patch of the CRD")
	b.wantUnwritten(t, before)
	generation := b.crd(t, name).Generation
	got := b.must(t, 0, "migrate", name, "--yes", "-o", "json")
	var report v1alpha1.Report
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
		t.Fatal(err)
	}
	if last := report.Steps[len(report.Steps)-1]; last.ID != "record" || last.Outcome != v1alpha1.OutcomeDone {
		t.Errorf("the last step is %+v", last)
	}
	b.wantStored(t, group, map[string]int{"v1": n})
	c := b.crd(t, name)
	if c.Generation != generation || c.Annotations[lifecycle.HoldAnnotation] != "" {
		t.Errorf("generation %d, want %d; annotations %v", c.Generation, generation, c.Annotations)
	}
	contains(t, c.Annotations[lifecycle.VerifiedAnnotation], `"uid":"`+string(c.UID)+`"`, `"storageVersion":"v1"`, `"listWriters":[{"manager":"by-hand"`)

	trustedBy := func(why string) {
		t.Helper()
		b.wantTrust(t, name, true, why)
		wantRules(t, b.validate(t, 0, name, "--fail-on", "warning", "--rules", "stored-versions-untrusted"))
		before := b.revisions(t)
		contains(t, b.must(t, 0, "migrate", name, "--yes").stdout, "unchanged")
		b.wantUnwritten(t, before)
	}
	trustedBy("and the spec has not changed since")
	contains(t, b.must(t, 2, "can-remove", "v1beta1", name).stdout, "no (verified)", "still served")

	// The spec changes, and the storage version does not.
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.Version(c, "v1beta1").Served = false })
	trustedBy("nobody has written status.storedVersions since")
	// The objects say that it is in use; of where they are stored nothing is to be said.
	contains(t, b.must(t, 2, "can-remove", "v1beta1", name).stdout, "no (verified)")
	for _, f := range b.preflight(t, 2, removed).Findings {
		if f.Rule != "managed-fields-name-version" {
			t.Errorf("%+v", f)
		}
	}

	// Back and forth, with an object in between, and trimmed by the same hand.
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
		testbed.Version(c, "v1beta1").Served = true
		testbed.SetStorageVersion(c, "v1beta1")
	})
	b.wantVersions(t, name, []string{"v1beta1 storage", "v1"}, []string{"v1", "v1beta1"})
	b.createObjectAt(t, group, "late", "v1beta1")
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1") })
	b.patchStored(t, name, "v1")
	b.wantStored(t, group, map[string]int{"v1": n, "v1beta1": 1})
	b.wantTrust(t, name, false, `last written by "by-hand"`)
	b.wantTrust(t, name, false, "may have changed since")
	wantRules(t, b.validate(t, 0, name, "--rules", "stored-versions-untrusted"), "stored-versions-untrusted")
	contains(t, b.must(t, 2, "can-remove", "v1beta1", name).stdout, "cannot be trusted")

	// And it is proven anew.
	b.nextSecond(t, name)
	contains(t, b.must(t, 0, "migrate", name, "--dry-run=client").stdout, "~ metadata.annotations[crdver.dev/verified]")
	b.must(t, 0, "migrate", name, "--yes")
	b.wantStored(t, group, map[string]int{"v1": n + 1})
	trustedBy("and the spec has not changed since")
}

// TestProofWhereNobodyIsOnTheList has lists that are trimmed wrongly after the proof by
// somebody whose name managedFields do not keep: by an apply that is followed by one
// without the field, and under the name that the server itself has.
func TestProofWhereNobodyIsOnTheList(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	for group, trim := range map[string]func(*testing.T, string){
		"left.example.com": func(t *testing.T, name string) {
			t.Helper()
			for _, status := range []string{`,"status":{"storedVersions":["v1"]}`, ""} {
				b.patchStatus(t, name, types.ApplyPatchType, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition"`+status+`}`,
					metav1.PatchOptions{FieldManager: "gitops", Force: new(true)})
			}
		},
		"server.example.com": func(t *testing.T, name string) {
			t.Helper()
			b.patchStatus(t, name, types.MergePatchType, `{"status":{"storedVersions":["v1"]}}`, metav1.PatchOptions{FieldManager: "kube-apiserver"})
		},
	} {
		t.Run(group, func(t *testing.T) {
			created := crontabs(group, "v1", "v1beta1")
			b.createCRD(t, created)
			name := created.Name
			b.createObjectAt(t, group, "early", "v1")
			b.must(t, 0, "migrate", name, "--force", "--yes")
			contains(t, b.must(t, 2, "can-remove", "v1beta1", name).stdout, "no (verified)")

			b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1beta1") })
			b.createObjectAt(t, group, "late", "v1beta1")
			b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1") })
			trim(t, name)
			b.wantVersions(t, name, []string{"v1 storage", "v1beta1"}, []string{"v1"})
			b.wantStored(t, group, map[string]int{"v1": 1, "v1beta1": 1})
			contains(t, b.must(t, 2, "can-remove", "v1beta1", name).stdout, "no (claimed)", "claimed by status.storedVersions, not proven")

			b.must(t, 0, "migrate", name, "--force", "--yes")
			b.wantStored(t, group, map[string]int{"v1": 2})
			contains(t, b.must(t, 2, "can-remove", "v1beta1", name).stdout, "no (verified)")
		})
	}
}

// patchStatus patches the status of a CRD as somebody.
func (b *bed) patchStatus(t *testing.T, name string, kind types.PatchType, body string, options metav1.PatchOptions) {
	t.Helper()
	if _, err := b.crds(t).ApiextensionsV1().CustomResourceDefinitions().Patch(t.Context(), name, kind, []byte(body), options, "status"); err != nil {
		t.Fatal(err)
	}
}

// createObjectAt creates an object and waits until one that is created is stored at
// the version: the server takes a while to take a new storage version in.
func (b *bed) createObjectAt(t *testing.T, group, object, version string) {
	t.Helper()
	objects := b.objects(t).Resource(resource(group, version)).Namespace("a")
	eventually(t, func() bool {
		if _, err := objects.Create(t.Context(), newCronTab(group, version, "a", object, 0), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		got, err := testbed.CountByVersion(t.Context(), b.Etcd(), group, testbed.CronTabPlural)
		if err != nil {
			t.Fatal(err)
		}
		if got[version] > 0 {
			return true
		}
		if err := objects.Delete(t.Context(), object, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		return false
	})
}

// TestProofWithoutManagedFields has a CRD that nobody records the writers of: the
// proof counts as long as the spec stays, and no longer.
func TestProofWithoutManagedFields(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, n = "cleared.example.com", 4
	name := b.scene(t, group, n)
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1") })
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { c.ManagedFields = []metav1.ManagedFieldsEntry{{}} })
	b.patchStored(t, name, "v1")
	b.wantTrust(t, name, false, "nothing tells who wrote")
	b.must(t, 0, "migrate", name, "--yes")
	b.wantStored(t, group, map[string]int{"v1": n})
	b.wantTrust(t, name, true, "and the spec has not changed since")
	before := b.revisions(t)
	b.must(t, 0, "migrate", name, "--yes")
	b.wantUnwritten(t, before)
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.Version(c, "v1beta1").Served = false })
	b.wantTrust(t, name, false, "nothing tells who wrote")
}

// TestProofOfAnotherCRD has an annotation that was copied with the CRD, as a backup or
// "kubectl get -o yaml" does, to one whose objects are stored elsewhere.
func TestProofOfAnotherCRD(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "copied.example.com"
	name := b.handTrimmed(t, group, 3)
	b.must(t, 0, "migrate", name, "--yes")
	record := b.crd(t, name).Annotations[lifecycle.VerifiedAnnotation]
	crds := b.crds(t).ApiextensionsV1().CustomResourceDefinitions()
	if err := crds.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		_, err := crds.Get(t.Context(), name, metav1.GetOptions{})
		return err != nil
	})
	copied := crontabs(group, "v1beta1", "v1")
	copied.Annotations = map[string]string{lifecycle.VerifiedAnnotation: record}
	b.createCRD(t, copied)
	b.createObjects(t, group, "v1beta1", 3, "a")
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1") })
	b.patchStored(t, name, "v1")
	b.wantStored(t, group, map[string]int{"v1beta1": 3})
	b.wantTrust(t, name, false, "it was copied")
	contains(t, b.must(t, 2, "can-remove", "v1beta1", name).stdout, "cannot be trusted")
	b.must(t, 0, "migrate", name, "--yes")
	b.wantStored(t, group, map[string]int{"v1": 3})
	b.wantTrust(t, name, true, "and the spec has not changed since")
}

// lateRefusal is an admission plugin that refuses to let one object be written, and
// does not say so to a dry run.
type lateRefusal struct{ on atomic.Bool }

func (*lateRefusal) Handles(operation admission.Operation) bool { return operation == admission.Update }

func (l *lateRefusal) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if l.on.Load() && !a.IsDryRun() && a.GetName() == "object-000001" {
		return admission.NewForbidden(a, errors.New("not now"))
	}
	return nil
}

// TestIncompleteRunRecordsNothing has runs that prove nothing about all objects.
func TestIncompleteRunRecordsNothing(t *testing.T) {
	t.Parallel()
	guard := &lateRefusal{}
	b := start(t, testbed.InProcessOptions{Admission: guard})
	const group = "incomplete.example.com"
	name := b.handTrimmed(t, group, 6)
	unrecorded := func() {
		t.Helper()
		if text, found := b.crd(t, name).Annotations[lifecycle.VerifiedAnnotation]; found {
			t.Errorf("recorded %s", text)
		}
		b.wantTrust(t, name, false, `last written by "by-hand"`)
	}
	for _, args := range []string{"--verify none", "--verify sample", "-n a", "-l !none", "--shard 0/2", "--until verify"} {
		b.must(t, 0, append([]string{"migrate", name, "--yes"}, strings.Fields(args)...)...)
		unrecorded()
	}
	guard.on.Store(true)
	contains(t, b.must(t, 4, "migrate", name, "--yes").stdout, "1 refused", "not run: verify, record")
	unrecorded()
	guard.on.Store(false)
	b.must(t, 0, "migrate", name, "--yes")
	b.wantTrust(t, name, true, "proven by kubectl crdver at ")
}

// TestProofIsOfTheCRDAsItIs has somebody write the CRD after the verify pass and
// before the record: nothing is recorded of what may not be true any more.
func TestProofIsOfTheCRDAsItIs(t *testing.T) {
	t.Parallel()
	m := &traffic{}
	b := start(t, testbed.InProcessOptions{Middleware: m.wrap})
	const group = "overtaken.example.com"
	name := b.handTrimmed(t, group, 3)
	var done atomic.Bool
	m.stepIn(func(r *http.Request) {
		if patchesCRD(r) && done.CompareAndSwap(false, true) {
			b.writeCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1beta1") })
		}
	})
	got := b.must(t, 3, "migrate", name, "--yes")
	m.stepIn(nil)
	if !done.Load() {
		t.Fatal("the CRD was not patched")
	}
	contains(t, got.stdout+got.stderr, "nothing is done on top of somebody else's change")
	if text, found := b.crd(t, name).Annotations[lifecycle.VerifiedAnnotation]; found {
		t.Errorf("recorded %s", text)
	}
}

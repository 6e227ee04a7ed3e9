package lifecycle_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

const (
	storedVersionsField = `{"f:status":{"f:storedVersions":{}}}`
	verifiedField       = `{"f:metadata":{"f:annotations":{"f:crdver.dev/verified":{}}}}`
	conditionsField     = `{"f:status":{"f:conditions":{}}}`
	inTreeManager       = "migration-runner-controller"
)

// wroteAt is an entry of managedFields of a second.
func wroteAt(second int, manager, subresource, fields string) metav1.ManagedFieldsEntry {
	entry := wrote(manager, subresource, fields)
	at := metav1.NewTime(time.Date(2026, 11, 30, 12, 0, second, 0, time.UTC))
	entry.Time = &at
	return entry
}

// trimmed is a CRD whose list somebody trimmed at second 0.
func trimmed() crd.CRD {
	c := live([]string{"v1"}, "*v1", "v1beta1")
	c.UID, c.Generation = "uid-1", 3
	c.ManagedFields = append(c.ManagedFields, wroteAt(0, "by-hand", "status", storedVersionsField))
	return c
}

// verified is the CRD once all of its objects were verified and that was noted, at
// second 10.
func verified(c crd.CRD) crd.CRD {
	at := time.Date(2026, 11, 30, 12, 0, 10, 300, time.UTC)
	c.Annotations = map[string]string{
		lifecycle.VerifiedAnnotation: lifecycle.MarkText(lifecycle.NewVerified(c, "alice@host", "kubectl-crdver", at)),
	}
	if len(c.ManagedFields) > 0 { // Without any, the server records nothing.
		c.ManagedFields = append(c.ManagedFields, wroteAt(10, "kubectl-crdver", "", verifiedField))
	}
	return c
}

// TestVerified goes through what can happen to a CRD after the proof that its list is
// true, and what that leaves of it.
func TestVerified(t *testing.T) {
	const same, still, byHand = "proven by kubectl crdver at 2026-11-30T12:00:10Z, and the spec has not changed since",
		"proven by kubectl crdver at 2026-11-30T12:00:10Z: v1 is still the storage version, and nobody has written status.storedVersions since",
		`last written by "by-hand"`
	// replace is a write of the list by somebody, who takes the others off it.
	replace := func(c *apiextensionsv1.CustomResourceDefinition, entry metav1.ManagedFieldsEntry) {
		c.ManagedFields = slices.DeleteFunc(c.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return string(e.FieldsV1.GetRawBytes()) == storedVersionsField
		})
		c.ManagedFields = append(c.ManagedFields, entry)
	}
	for name, test := range map[string]struct {
		// before is what is there when the objects are verified, after what happens then.
		before, after func(*apiextensionsv1.CustomResourceDefinition)
		observations  lifecycle.Observations
		trusted       bool
		reason        string
		// claimed says that the list is trusted, and nothing proven.
		claimed bool
	}{
		"nothing": {trusted: true, reason: same},
		"somebody trims it too": {after: func(c *apiextensionsv1.CustomResourceDefinition) {
			replace(c, wroteAt(20, "somebody", "status", storedVersionsField))
		}, trusted: true, reason: same},
		"managedFields are cleared": {after: func(c *apiextensionsv1.CustomResourceDefinition) { c.ManagedFields = nil }, trusted: true, reason: same},
		"there were none":           {before: func(c *apiextensionsv1.CustomResourceDefinition) { c.ManagedFields = nil }, trusted: true, reason: same},
		"in-tree migration fails": {after: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: "StorageMigrating", Status: "False", Reason: "MigrationFailed"}}
			replace(c, wroteAt(20, inTreeManager, "status", storedVersionsField))
		}, observations: lifecycle.Observations{Migrations: []lifecycle.Migration{{Name: "m", Failed: true}}}, trusted: true, reason: same},
		"migrations cannot be read":      {observations: lifecycle.Observations{MigrationsError: "forbidden"}, trusted: true, reason: same},
		"more is listed":                 {after: func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.StoredVersions = []string{"v1beta1", "v1"} }, trusted: true, reason: same},
		"a little ahead of this machine": {observations: lifecycle.Observations{Now: time.Date(2026, 11, 30, 11, 59, 0, 0, time.UTC)}, trusted: true, reason: same},

		"etcd says otherwise": {observations: lifecycle.Observations{Stored: &lifecycle.Stored{
			Source: "etcd", Counts: []v1alpha1.StoredCount{{Version: "v1beta1", Objects: 1}},
		}}, reason: "etcd holds 1 object at v1beta1"},
		"a bogus entry is listed":           {after: func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.StoredVersions = []string{"v0", "v1"} }, reason: "lists v0"},
		"the storage version is not listed": {after: func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.StoredVersions = []string{"v1beta1"} }, reason: "does not list the storage version"},

		"the spec changes": {after: func(c *apiextensionsv1.CustomResourceDefinition) { c.Generation++ }, trusted: true, reason: still},
		"it changes, after an old in-tree migration": {before: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: "StorageMigrating", Status: "False", Reason: "MigrationFailed"}}
			replace(c, wroteAt(0, inTreeManager, "status", storedVersionsField))
		}, after: func(c *apiextensionsv1.CustomResourceDefinition) { c.Generation++ }, trusted: true, reason: still},
		"it changes, and nobody was on the list": {before: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.ManagedFields = c.ManagedFields[:1]
		}, after: func(c *apiextensionsv1.CustomResourceDefinition) { c.Generation++ }, trusted: true, reason: "nothing is known", claimed: true},
		"it changes, and somebody trims and takes the own name off": {after: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Generation += 2
			replace(c, wroteAt(20, "somebody", "", `{"f:spec":{"f:versions":{}}}`))
		}, trusted: true, reason: "nothing is known", claimed: true},
		"it changes, and somebody trims under the name of the server": {after: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Generation += 2
			replace(c, wroteAt(20, "kube-apiserver", "status", storedVersionsField))
		}, trusted: true, reason: "nothing is known", claimed: true},
		"it changes, and the server forgets who trimmed": {after: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Generation += 2
			replace(c, wroteAt(20, "ancient-changes", "", storedVersionsField))
		}, reason: `last written by "ancient-changes"`},
		"it changes, and in-tree is not on the list any more": {before: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: "StorageMigrating", Status: "False", Reason: "MigrationFailed"}}
			replace(c, wroteAt(0, inTreeManager, "status", storedVersionsField))
		}, after: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Generation += 2
			replace(c, wroteAt(0, inTreeManager, "status", conditionsField))
		}, reason: "although it failed"},
		"it changes, and migrations cannot be read": {
			after: func(c *apiextensionsv1.CustomResourceDefinition) { c.Generation++ }, observations: lifecycle.Observations{MigrationsError: "forbidden"}, reason: "could not be read: forbidden",
		},
		"it changes, and a migration runs": {
			after:        func(c *apiextensionsv1.CustomResourceDefinition) { c.Generation++ },
			observations: lifecycle.Observations{Migrations: []lifecycle.Migration{{Name: "m", Running: true}}}, reason: "StorageVersionMigration m is not finished",
		},
		"it changes, and the same one trims": {after: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Generation += 2
			replace(c, wroteAt(20, "by-hand", "status", storedVersionsField))
		}, reason: byHand},
		"it changes, and another one trims": {after: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Generation += 2
			replace(c, wroteAt(20, "somebody", "status", storedVersionsField))
		}, reason: `last written by "somebody"`},
		"it changes, and a server whose clock is behind trims": {after: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Generation += 2
			replace(c, wroteAt(1, "by-hand", "status", storedVersionsField))
		}, reason: byHand},
		"it changes, and in-tree trims": {after: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Generation += 2
			replace(c, wroteAt(20, inTreeManager, "status", storedVersionsField))
		}, reason: "by the in-tree storage version migration"},
		"it changes, and in-tree trims and takes its name off": {after: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Generation += 2
			replace(c, wroteAt(20, inTreeManager, "status", conditionsField))
			c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: "StorageMigrating", Status: "True", Reason: "MigrationRunning"}}
		}, reason: "StorageMigrating is True"},
		"it changes, and in-tree took its name off before and after": {before: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: "StorageMigrating", Status: "False", Reason: "MigrationFailed"}}
			replace(c, wroteAt(0, inTreeManager, "status", conditionsField))
		}, after: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Generation += 2
			c.ManagedFields = slices.DeleteFunc(c.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == inTreeManager })
			c.ManagedFields = append(c.ManagedFields, wroteAt(20, inTreeManager, "status", conditionsField))
		}, reason: "although it failed"},
		"the list was written in the second of the proof": {before: func(c *apiextensionsv1.CustomResourceDefinition) {
			replace(c, wroteAt(10, "by-hand", "status", storedVersionsField))
		}, after: func(c *apiextensionsv1.CustomResourceDefinition) { c.Generation++ }, reason: byHand},
		"managedFields are cleared, and the spec changes": {after: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Generation++
			c.ManagedFields = nil
		}, reason: "nothing tells who wrote"},
		"there were none, and the spec changes": {
			before: func(c *apiextensionsv1.CustomResourceDefinition) { c.ManagedFields = nil },
			after:  func(c *apiextensionsv1.CustomResourceDefinition) { c.Generation++ }, reason: "nothing tells who wrote",
		},
		"cleared, and all is put down to before": {after: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Generation++
			c.ManagedFields = []metav1.ManagedFieldsEntry{wroteAt(20, "before-first-apply", "", verifiedField), wroteAt(21, "by-hand", "status", storedVersionsField)}
		}, reason: byHand},

		"another storage version": {after: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Generation++
			c.Spec.Versions[0].Storage, c.Spec.Versions[1].Storage = false, true
			c.Status.StoredVersions = []string{"v1beta1"}
		}, reason: byHand},
		"created again":          {after: func(c *apiextensionsv1.CustomResourceDefinition) { c.UID = "uid-2" }, reason: "is about another CRD (UID uid-1): it was copied"},
		"restored from a backup": {after: func(c *apiextensionsv1.CustomResourceDefinition) { c.UID, c.Generation = "uid-2", 1 }, reason: "is about another CRD (UID uid-1)"},
		"of a later generation":  {after: func(c *apiextensionsv1.CustomResourceDefinition) { c.Generation = 2 }, reason: "is about generation 3, which the CRD has not reached"},
		"edited": {after: func(c *apiextensionsv1.CustomResourceDefinition) {
			c.ManagedFields = append(c.ManagedFields, wroteAt(20, "kubectl-edit", "", verifiedField))
		}, reason: `was changed by "kubectl-edit" at 2026-11-30T12:00:20Z`},
		"cannot be read":  {after: text("{"), reason: "cannot be read"},
		"of another form": {after: text(`{"format":1,"uid":"uid-1","more":1}`), reason: "cannot be read"},
		"of a later tool": {after: text(`{"format":2}`), reason: "has the format 2"},
		"not complete":    {after: text(`{"format":1,"uid":"uid-1","storageVersion":"v1","generation":3}`), reason: "is not complete"},
		"too long":        {after: text(`{"format":1}` + strings.Repeat(" ", 9000)), reason: "has 9012 bytes"},
		"in the future":   {observations: lifecycle.Observations{Now: time.Date(2026, 11, 30, 11, 0, 0, 0, time.UTC)}, reason: "has a time in the future, 2026-11-30T12:00:10Z"},
		"after it was written": {after: func(c *apiextensionsv1.CustomResourceDefinition) {
			record := lifecycle.NewVerified(crd.Live(c), "", "kubectl-crdver", time.Date(2026, 11, 30, 13, 0, 0, 0, time.UTC))
			c.Annotations[lifecycle.VerifiedAnnotation] = lifecycle.MarkText(record)
		}, reason: "has a time in the future of when it was written"},
	} {
		t.Run(name, func(t *testing.T) {
			c := trimmed()
			if test.before != nil {
				test.before(c.CustomResourceDefinition)
			}
			if before := lifecycle.New(c, lifecycle.Observations{}).Trust; before.Trusted && name != "it changes, and nobody was on the list" {
				t.Fatalf("trusted before anything is proven: %+v", before)
			}
			c = verified(c)
			if test.after != nil {
				test.after(c.CustomResourceDefinition)
			}
			s := lifecycle.New(c, test.observations)
			if s.Trust.Trusted != test.trusted || !strings.Contains(strings.Join(s.Trust.Reasons, "; "), test.reason) {
				t.Errorf("got %+v, want trusted %t because of %q", s.Trust, test.trusted, test.reason)
			}
			want := v1alpha1.ProofVerified
			if test.claimed {
				want = v1alpha1.ProofClaimed
			}
			if proof := s.Leave("v1beta1", nil, false).Proof; test.trusted && s.StoredExactly("v1") && proof != want {
				t.Errorf("proof that v1beta1 may leave: %s, want %s", proof, want)
			}
		})
	}
}

func text(value string) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(c *apiextensionsv1.CustomResourceDefinition) { c.Annotations[lifecycle.VerifiedAnnotation] = value }
}

// TestVerifiedAndListedMore has a list that somebody trimmed wrongly after the proof,
// and that then became longer again: whoever wrote it is not on it any more.
func TestVerifiedAndListedMore(t *testing.T) {
	c := trimmed()
	c.Spec.Versions = append(c.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: "v2", Served: true})
	c.ManagedFields = c.ManagedFields[:1] // Nobody was on the list, before either.
	c = verified(c)
	c.Generation += 3
	c.Status.StoredVersions = []string{"v1", "v2"}
	if item := lifecycle.New(c, lifecycle.Observations{}).Leave("v1beta1", nil, false); item.Proof != v1alpha1.ProofClaimed {
		t.Errorf("proof that v1beta1 may leave: %s", item.Proof)
	}
}

// TestVerifiedDoubtIsNoReasonAlone has a list that nobody has written, and an entry in
// it that no proof outweighs: what the annotation is worth makes no difference.
func TestVerifiedDoubtIsNoReasonAlone(t *testing.T) {
	c := live([]string{"v1", "v0"}, "*v1", "v1beta1")
	c.Annotations = map[string]string{lifecycle.VerifiedAnnotation: "{"}
	if got := lifecycle.New(c, lifecycle.Observations{}).Trust; got.Trusted || len(got.Reasons) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestVerifiedOddIsNoHarm has a list that is trusted anyway.
func TestVerifiedOddIsNoHarm(t *testing.T) {
	c := live([]string{"v1"}, "*v1", "v1beta1")
	c.Annotations = map[string]string{lifecycle.VerifiedAnnotation: "{"}
	if got := lifecycle.New(c, lifecycle.Observations{}).Trust; !got.Trusted {
		t.Errorf("%+v", got)
	}
}

// TestVerifiedText is what stands in the CRD.
func TestVerifiedText(t *testing.T) {
	const want = `{"format":1,"uid":"uid-1","storageVersion":"v1","generation":3,"at":"2026-11-30T12:00:10Z","by":"alice@host",` +
		`"manager":"kubectl-crdver","listWriters":[{"manager":"by-hand","at":"2026-11-30T12:00:00Z"}]}`
	if got := verified(trimmed()).Annotations[lifecycle.VerifiedAnnotation]; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

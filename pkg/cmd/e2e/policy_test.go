package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"sync/atomic"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiserver/pkg/admission"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// policy is an admission plugin that refuses to let one object be updated.
type policy struct {
	object string
	// refuses is the state now; armed makes the next change of the spec of a CRD,
	// which is the tool's flip of the storage version, turn it on.
	refuses, armed atomic.Bool
}

func (p *policy) Handles(operation admission.Operation) bool { return operation == admission.Update }

func (p *policy) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if changesSpec(a) && p.armed.Load() {
		p.refuses.Store(true)
	}
	if a.GetResource().Resource == testbed.CronTabPlural && a.GetName() == p.object && p.refuses.Load() {
		return admission.NewForbidden(a, errors.New("the policy protects it"))
	}
	return nil
}

// changesSpec reports whether a request changes the spec of a CRD: what else the
// tool writes there, such as who is at work, does not count.
func changesSpec(a admission.Attributes) bool {
	before, isCRD := a.GetOldObject().(*apiextensions.CustomResourceDefinition)
	after, _ := a.GetObject().(*apiextensions.CustomResourceDefinition)
	return isCRD && after != nil && !a.IsDryRun() && !reflect.DeepEqual(before.Spec, after.Spec)
}

func TestPolicyRefusesAnObject(t *testing.T) {
	t.Parallel()
	guard := &policy{object: "object-000000"}
	b := start(t, testbed.InProcessOptions{Admission: guard})
	const n, group = 120, "policy.example.com"
	name := b.scene(t, group, n)

	// In force beforehand: the rehearsal finds it.
	guard.refuses.Store(true)
	before := b.revisions(t)
	got := b.must(t, 3, "promote", "v1", name, "--yes")
	contains(t, got.stderr, "the server would refuse to rewrite 1 of 120 objects", "a/object-000000", "the policy protects it", "to resolve:")
	got = b.must(t, 3, "promote", "v1", name, "--dry-run=server", "-o", "json")
	var plan v1alpha1.Plan
	if err := json.Unmarshal([]byte(got.stdout), &plan); err != nil {
		t.Fatal(err)
	}
	if plan.Applyable || len(plan.Blockers) != 1 || plan.Blockers[0].ID != "rehearsal-refused" || len(plan.Summary.Rehearsal.Refused) != 1 {
		t.Errorf("the plan: applyable %t, blockers %+v", plan.Applyable, plan.Blockers)
	}
	b.wantUnwritten(t, before)

	// In force only once the storage version has changed.
	guard.refuses.Store(false)
	guard.armed.Store(true)
	got = b.must(t, 4, "promote", "v1", name, "--yes")
	contains(t, got.stdout, "partly promoted to v1", "120 objects: ", "1 refused", "1 object refused by an admission plugin (AdmissionDenied)", "a/object-000000", "the policy protects it",
		"not run: verify, trim", "to continue: kubectl crdver promote v1 "+name)
	b.wantStored(t, group, map[string]int{"v1": n - 1, "v1beta1": 1})
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1beta1", "v1"})

	// Still there: the next run says so beforehand, and retire does not go on either.
	before = b.revisions(t)
	b.must(t, 3, "promote", "v1", name, "--yes")
	b.must(t, 3, "retire", "v1beta1", name, "--yes")
	b.wantUnwritten(t, before)

	// Gone: the next run finishes.
	guard.armed.Store(false)
	guard.refuses.Store(false)
	b.must(t, 0, "promote", "v1", name, "--yes")
	b.wantStored(t, group, map[string]int{"v1": n})
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1"})
}

// TestPolicyAppearsDuringRetire has the policy appear when the version is
// unserved: the version stays, and so do its clients' way back and the object.
func TestPolicyAppearsDuringRetire(t *testing.T) {
	t.Parallel()
	guard := &policy{object: "object-000001"}
	b := start(t, testbed.InProcessOptions{Admission: guard})
	const n, group = 40, "policy.example.com"
	name := b.scene(t, group, n)
	b.must(t, 0, "promote", "v1", name, "--yes")
	guard.armed.Store(true)
	got := b.must(t, 4, "retire", "v1beta1", name, "--yes")
	contains(t, got.stdout, "b/object-000001", "the policy protects it", "not run: ", "remove")
	b.wantVersions(t, name, []string{"v1beta1 unserved", "v1 storage"}, []string{"v1"})
	guard.armed.Store(false)
	guard.refuses.Store(false)
	b.must(t, 0, "retire", "v1beta1", name, "--yes")
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	b.wantStored(t, group, map[string]int{"v1": n})
}

package executor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/plan"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
)

func TestPlanTellsTheRightWait(t *testing.T) {
	t.Parallel()
	if plan.WriteTimeout != storagemigration.WriteTimeout {
		t.Errorf("the plan says %s, the engine waits %s", plan.WriteTimeout, storagemigration.WriteTimeout)
	}
}

// TestNotBefore is about when the pass that counts may start.
func TestNotBefore(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	entry := func(field string, ago time.Duration) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(now.Add(-ago))
		return metav1.ManagedFieldsEntry{
			Manager: field, Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:` + field + `":{}}}`),
		}
	}
	for name, test := range map[string]struct {
		free   bool
		fields []metav1.ManagedFieldsEntry
		// ahead is by how much the server's clock is.
		ahead time.Duration
		// timeless says that the server does not tell what time it is.
		timeless bool
		want     time.Duration // From now on; negative means at once.
	}{
		"no webhook":              {free: true, fields: []metav1.ManagedFieldsEntry{entry("versions", 0)}, want: -1},
		"changed just now":        {fields: []metav1.ManagedFieldsEntry{entry("versions", 0)}, want: 36 * time.Second},
		"changed a while ago":     {fields: []metav1.ManagedFieldsEntry{entry("versions", 30*time.Second)}, want: 6 * time.Second},
		"changed long ago":        {fields: []metav1.ManagedFieldsEntry{entry("versions", time.Hour)}, want: -1},
		"the newest counts":       {fields: []metav1.ManagedFieldsEntry{entry("versions", time.Hour), entry("versions", 10*time.Second)}, want: 26 * time.Second},
		"another field":           {fields: []metav1.ManagedFieldsEntry{entry("versions", time.Hour), entry("names", 0)}, want: -1},
		"not known":               {want: 35 * time.Second},
		"by a clock that is fast": {fields: []metav1.ManagedFieldsEntry{entry("versions", -time.Hour)}, want: 35 * time.Second},
		"just now, and the server is behind": {
			fields: []metav1.ManagedFieldsEntry{entry("versions", time.Hour)}, ahead: -time.Hour, want: 36 * time.Second,
		},
		"just now, and the server is ahead": {
			fields: []metav1.ManagedFieldsEntry{entry("versions", -time.Hour)}, ahead: time.Hour, want: 36 * time.Second,
		},
		"long ago, and the server is ahead": {fields: []metav1.ManagedFieldsEntry{entry("versions", -time.Minute)}, ahead: time.Hour, want: -1},
		"long ago, as it seems":             {fields: []metav1.ManagedFieldsEntry{entry("versions", time.Hour)}, timeless: true, want: 35 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &run{Options: Options{Now: func() time.Time { return now }, Events: func(v1alpha1.Event) {}}}
			r.Gates.Time = func(context.Context) (time.Time, error) {
				if test.timeless {
					return time.Time{}, errors.New("no Date header")
				}
				return now.Add(test.ahead), nil
			}
			r.step = &v1alpha1.Step{Action: v1alpha1.ActionVerify, HeldWrites: !test.free}
			r.versionsChanged = r.changed(t.Context(), &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{ManagedFields: test.fields}})
			got := r.notBefore().Sub(now)
			if test.want < 0 && got > 0 || test.want >= 0 && got != test.want {
				t.Errorf("it may start in %s, want %s", got, test.want)
			}
		})
	}
}

// TestHeldWritesAreAwaited changes spec.versions, as each step of a run may, and has the
// managedFields moved after that: whatever a webhook holds has to end first.
func TestHeldWritesAreAwaited(t *testing.T) {
	t.Parallel()
	bed := startWithCronTabs(t, 1)
	unserve := v1alpha1.Step{
		ID: "unserve", Action: v1alpha1.ActionUnserve, Version: "v1beta1", Reversible: true,
		Patch: patchOf(v1alpha1.PatchOperation{Op: "replace", Path: "/spec/versions/0/served", Value: &apiextensionsv1.JSON{Raw: []byte("false")}}),
	}
	clean := v1alpha1.Step{
		ID: "clean", Action: v1alpha1.ActionCleanManagedFields, Version: "v1beta1", Endpoint: "v1", Reversible: true, HeldWrites: true,
	}
	r := newRun(t, bed.Config(), Options{}, unserve, clean)
	if !r.awaited() {
		t.Error("the plan waits for nothing")
	}
	began := time.Now()
	if err := r.runStep(t.Context(), r.plan.Steps); err != nil {
		t.Fatal(err)
	}
	if r.versionsChanged.Before(began) {
		t.Errorf("spec.versions was changed at %s by what the run knows, and at %s or later", r.versionsChanged, began)
	}
	// What changes nothing of it does not count.
	changed := r.versionsChanged
	r.plan.Steps[0].Patch = patchOf(plan.Annotate("example.com/note", "x"))
	if _, err := r.patchCRD(t.Context(), r.plan.Steps); err != nil {
		t.Fatal(err)
	}
	if r.versionsChanged != changed {
		t.Error("an annotation counts as a change of spec.versions")
	}

	r.step, r.number = &r.plan.Steps[1], 2
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := r.runStep(ctx, r.plan.Steps[1:]); err == nil || !strings.Contains(err.Error(), "waiting for the writes that a webhook may hold") {
		t.Errorf("%v", err)
	}
	r.versionsChanged = time.Now().Add(-storagemigration.WriteTimeout)
	if err := r.runStep(t.Context(), r.plan.Steps[1:]); err != nil || !r.cleaned {
		t.Errorf("%v", err)
	}
}

package executor

import (
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
		want   time.Duration // From now on; negative means at once.
	}{
		"no webhook":              {free: true, fields: []metav1.ManagedFieldsEntry{entry("versions", 0)}, want: -1},
		"changed just now":        {fields: []metav1.ManagedFieldsEntry{entry("versions", 0)}, want: 36 * time.Second},
		"changed a while ago":     {fields: []metav1.ManagedFieldsEntry{entry("versions", 30*time.Second)}, want: 6 * time.Second},
		"changed long ago":        {fields: []metav1.ManagedFieldsEntry{entry("versions", time.Hour)}, want: -1},
		"the newest counts":       {fields: []metav1.ManagedFieldsEntry{entry("versions", time.Hour), entry("versions", 10*time.Second)}, want: 26 * time.Second},
		"another field":           {fields: []metav1.ManagedFieldsEntry{entry("versions", time.Hour), entry("names", 0)}, want: -1},
		"not known":               {want: 35 * time.Second},
		"by a clock that is fast": {fields: []metav1.ManagedFieldsEntry{entry("versions", -time.Hour)}, want: 35 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &run{Options: Options{Now: func() time.Time { return now }, Events: func(v1alpha1.Event) {}}}
			r.step = &v1alpha1.Step{Action: v1alpha1.ActionVerify, HeldWrites: !test.free}
			r.flipped = r.changed(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{ManagedFields: test.fields}})
			got := r.notBefore().Sub(now)
			if test.want < 0 && got > 0 || test.want >= 0 && got != test.want {
				t.Errorf("it may start in %s, want %s", got, test.want)
			}
		})
	}
}

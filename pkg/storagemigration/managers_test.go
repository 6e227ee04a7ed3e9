package storagemigration_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"

	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// forgetful clears the managedFields of some objects with every update, as API
// servers did that could not convert them (kubernetes/kubernetes#136919).
type forgetful map[string]bool

func (f forgetful) Handles(operation admission.Operation) bool { return operation == admission.Update }

func (f forgetful) Admit(_ context.Context, attributes admission.Attributes, _ admission.ObjectInterfaces) error {
	if !f[attributes.GetName()] {
		return nil
	}
	object, err := meta.Accessor(attributes.GetObject())
	if err != nil {
		return fmt.Errorf("reading the object's metadata: %w", err)
	}
	object.SetManagedFields(nil)
	return nil
}

// Case 81: whoever managed an object before it was rewritten manages it afterwards,
// or it is told.
func TestPassTellsOfManagersThatAreLost(t *testing.T) {
	t.Parallel()
	bed := startWithCronTabs(t, 10, testbed.InProcessOptions{Admission: forgetful{name(3): true, name(7): true}})
	flipAndWait(t, bed)
	var lock sync.Mutex
	var told []string
	pass := func() storagemigration.PassResult {
		t.Helper()
		result, err := storagemigration.Pass(t.Context(), cronTabs(t, bed.Config(), "v1"), storagemigration.PassOptions{Notice: func(text string) {
			lock.Lock()
			defer lock.Unlock()
			told = append(told, text)
		}})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	// The barrier has rewritten three.
	if counts := pass().Counts; counts.Rewritten != 7 || counts.ManagersLost != 2 {
		t.Errorf("counts: %+v", counts)
	}
	if len(told) != 1 || !strings.Contains(told[0], "took the entries of ") || !strings.Contains(told[0], "metadata.managedFields") {
		t.Errorf("told %q", told)
	}
	// Nobody is left to lose.
	if result := pass(); !result.Clean() || result.Counts.ManagersLost != 0 {
		t.Errorf("the second pass: %+v", result.Counts)
	}
	wantStored(t, bed, map[string]int{"v1": 10})
}

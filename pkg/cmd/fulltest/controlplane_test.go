//go:build controlplane

package fulltest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// scenario is one test on the shared control plane.
type scenario struct {
	name string
	// prepare makes the CRD before the controller manager starts, which then
	// knows the resource at once; nil means that run makes its own.
	prepare func(t *testing.T, bed *testbed.Full) *subject
	run     func(t *testing.T, bed *testbed.Full, s *subject)
}

// TestControlPlane runs all scenarios on one control plane. Those of the second
// group break the reading of a resource or of a group for a while, which the
// search for owner references of other tests would notice.
func TestControlPlane(t *testing.T) {
	begin := time.Now()
	bed, err := testbed.StartFull(t.Context(), testbed.FullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Stop)
	t.Logf("started in %s", time.Since(begin))

	groups := []struct {
		name      string
		scenarios []scenario
	}{
		{"sound", slices.Concat(accessScenarios(), policyScenarios())},
		{"broken", nil},
	}
	subjects := map[string]*subject{}
	for _, group := range groups {
		for _, one := range group.scenarios {
			if one.prepare != nil {
				subjects[one.name] = one.prepare(t, bed)
			}
		}
	}
	if err := bed.StartControllerManager(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			for _, one := range group.scenarios {
				t.Run(one.name, func(t *testing.T) {
					t.Parallel()
					one.run(t, bed, subjects[one.name])
				})
			}
		})
	}
}

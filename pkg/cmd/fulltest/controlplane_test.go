//go:build controlplane

package fulltest_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestMain lets more tests run at a time than there are processors: they wait
// for servers most of the time. The flag -parallel takes precedence.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // this is the main of the tests
	}
	m.Run()
}

// scenario is one test on the shared control plane.
type scenario struct {
	name string
	// prepare makes the CRD before the controller manager starts, which then
	// knows the resource at once; nil means that run makes its own.
	prepare func(t *testing.T, bed *testbed.Full) *subject
	run     func(t *testing.T, bed *testbed.Full, s *subject)
}

// TestControlPlane runs the scenarios on one control plane. Those of the later
// groups break the reading of a resource or of a group for a while, which the
// search for owner references of other tests would notice.
func TestControlPlane(t *testing.T) {
	t.Parallel()
	runScenarios(t,
		slices.Concat(webhookScenarios(), accessScenarios(), policyScenarios(), referenceScenarios(), discoveryScenarios(),
			pluginScenarios(), jobScenarios(), concurrentScenarios(), validateScenarios(), usageScenarios(), selectionScenarios()),
		brokenScenarios(),
		[]scenario{{name: "rescue rights", run: testRescueRights}},
	)
}

// TestInTree has a control plane of its own: the controller of the in-tree
// migration waits for the garbage collector, which starts over whenever some
// CRD changes.
func TestInTree(t *testing.T) {
	t.Parallel()
	together, alone := inTreeScenarios()
	runScenarios(t, together, alone)
}

// runScenarios starts a control plane and runs one group of scenarios after the
// other, those of a group at the same time.
func runScenarios(t *testing.T, groups ...[]scenario) {
	t.Helper()
	begin := time.Now()
	bed := startFull(t, testbed.FullOptions{})
	t.Logf("started in %s", time.Since(begin))
	subjects := map[string]*subject{}
	for _, one := range slices.Concat(groups...) {
		if one.prepare != nil {
			subjects[one.name] = one.prepare(t, bed)
		}
	}
	if err := bed.StartControllerManager(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, group := range groups {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			for _, one := range group {
				t.Run(one.name, func(t *testing.T) {
					t.Parallel()
					one.run(t, bed, subjects[one.name])
				})
			}
		})
	}
}

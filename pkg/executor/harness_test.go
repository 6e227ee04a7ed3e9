package executor

import (
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// startWithCronTabs starts a server with n CronTabs that are stored at v1, while
// v1beta1, the first version of the CRD, is served.
func startWithCronTabs(t *testing.T, n int) *testbed.InProcess {
	t.Helper()
	bed := startServer(t)
	crd := testbed.CronTabs("v1beta1", "v1")
	testbed.SetStorageVersion(crd, "v1")
	createCronTabs(t, bed, crd, n)
	return bed
}

func startServer(t *testing.T) *testbed.InProcess {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts an API server")
	}
	bed, err := testbed.StartInProcess(t.Context(), testbed.InProcessOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Stop)
	return bed
}

func createCronTabs(t *testing.T, bed *testbed.InProcess, crd *apiextensionsv1.CustomResourceDefinition, n int) {
	t.Helper()
	if _, err := testbed.CreateCRD(t.Context(), bed.Config(), crd); err != nil {
		t.Fatal(err)
	}
	options := testbed.ObjectOptions{Namespaces: []string{"a", "b"}}
	if err := testbed.CreateObjects(t.Context(), bed.Config(), testbed.CronTabResource("v1"), n, options); err != nil {
		t.Fatal(err)
	}
}

func updateCRD(t *testing.T, bed *testbed.InProcess, change func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	if _, err := testbed.UpdateCRD(t.Context(), bed.Config(), testbed.CronTabCRD, change); err != nil {
		t.Fatal(err)
	}
}

// planOf is the plan of a retirement of v1beta1 with these steps, for the CRD as it is.
func planOf(t *testing.T, c *cluster.Cluster, steps ...v1alpha1.Step) v1alpha1.Plan {
	t.Helper()
	found, err := c.CRDs().Get(t.Context(), testbed.CronTabCRD)
	if err != nil {
		t.Fatal(err)
	}
	return v1alpha1.Plan{
		Target: v1alpha1.Target{CRD: identify(found)}, Complete: true, Applyable: true, Steps: steps,
		Intent: v1alpha1.Intent{Verb: v1alpha1.VerbRetire, Version: "v1beta1", AllowOwnerReferences: true},
	}
}

func patchOf(operations ...v1alpha1.PatchOperation) *v1alpha1.Patch {
	return &v1alpha1.Patch{Type: "json", Body: operations}
}

func newCluster(t *testing.T, config *rest.Config) *cluster.Cluster {
	t.Helper()
	c, err := cluster.New(config, "test")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newRun returns a run that is at its first step.
func newRun(t *testing.T, config *rest.Config, options Options, steps ...v1alpha1.Step) *run {
	t.Helper()
	c := newCluster(t, config)
	options.Cluster, options.FieldManager, options.Now = c, "test", time.Now
	if options.Events == nil {
		options.Events = func(v1alpha1.Event) {}
	}
	r := &run{Options: options, plan: planOf(t, c, steps...)}
	r.expected, r.report = r.plan.Target.CRD, newReport(r.plan, r.time())
	r.step, r.number = &r.plan.Steps[0], 1
	return r
}

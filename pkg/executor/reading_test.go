package executor

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// removal is the step that removes v1beta1, the first version.
func removal() v1alpha1.Step {
	return v1alpha1.Step{
		ID: "remove", Action: v1alpha1.ActionRemove, Version: "v1beta1",
		Patch: patchOf(v1alpha1.PatchOperation{Op: "remove", Path: "/spec/versions/0"}),
	}
}

// removing returns a run that is about to remove v1beta1, through a proxy.
func removing(t *testing.T, bed *testbed.InProcess, options Options, stepIn testbed.StepIn) *run {
	t.Helper()
	updateCRD(t, bed, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.Version(c, "v1beta1").Served = false })
	proxy, err := testbed.StartProxy(t.Context(), bed.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	proxy.StepIn(stepIn)
	options.Gates.Back, options.Gates.BackRemoved = "restore it", "restore it from a manifest"
	r := newRun(t, proxy.Config(), options, removal())
	r.verified, r.cleaned = &v1alpha1.Evidence{Complete: true}, true
	return r
}

// listsObjects reports whether a request lists custom resources, and not their first page.
func listsObjects(r *http.Request) (lists, further bool) {
	lists = r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/"+testbed.CronTabPlural)
	return lists, lists && r.URL.Query().Get("continue") != ""
}

// versions returns the versions of the CRD.
func versions(t *testing.T, bed *testbed.InProcess) string {
	t.Helper()
	found, err := newCluster(t, bed.Config()).CRDs().Get(t.Context(), testbed.CronTabCRD)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range found.Spec.Versions {
		names = append(names, v.Name)
	}
	return strings.Join(names, " ")
}

// TestReadingMayTakeLong has a list whose every page takes longer than a change of the
// CRD may take to be seen.
func TestReadingMayTakeLong(t *testing.T) {
	t.Parallel()
	const n = 1100
	bed := startWithCronTabs(t, n)
	var pages atomic.Int64
	var last atomic.Pointer[v1alpha1.Progress]
	options := Options{Settle: 100 * time.Millisecond, Events: func(e v1alpha1.Event) {
		if e.Type == v1alpha1.EventProgress {
			last.Store(e.Progress)
		}
	}}
	r := removing(t, bed, options, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if lists, _ := listsObjects(r); lists {
			pages.Add(1)
			time.Sleep(300 * time.Millisecond)
		}
		next.ServeHTTP(w, r)
	})
	if err := r.runSteps(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := versions(t, bed); got != "v1" {
		t.Errorf("versions are %s", got)
	}
	if got := r.back(); got != "restore it from a manifest" {
		t.Errorf("the way back: %s", got)
	}
	if p := last.Load(); pages.Load() < 3 || p == nil || p.Counts.Listed < 500 || p.Total != n {
		t.Errorf("%d pages, progress %+v", pages.Load(), p)
	}
}

// TestUnreadIsNotUnreadable has a read that comes to no end, for one reason or another:
// the version, which no object needs by the proof, stays removed, and the error says
// what is not known.
func TestUnreadIsNotUnreadable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer  func(w http.ResponseWriter, end context.CancelCauseFunc)
		says    string
		outcome v1alpha1.Outcome
	}{
		"unavailable": {
			func(w http.ResponseWriter, _ context.CancelCauseFunc) {
				http.Error(w, "no endpoints", http.StatusServiceUnavailable)
			}, "unable to handle the request", v1alpha1.OutcomeFailed,
		},
		"forbidden by now": {
			func(w http.ResponseWriter, _ context.CancelCauseFunc) { http.Error(w, "not you", http.StatusForbidden) },
			"not you", v1alpha1.OutcomeFailed,
		},
		"interrupted": {
			func(_ http.ResponseWriter, end context.CancelCauseFunc) { end(nil); panic(http.ErrAbortHandler) },
			"context canceled", v1alpha1.OutcomeInterrupted,
		},
		"taken over": {
			func(_ http.ResponseWriter, end context.CancelCauseFunc) {
				end(refusef("bob took over"))
				panic(http.ErrAbortHandler)
			}, "bob took over", v1alpha1.OutcomeRefused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := startWithCronTabs(t, 600)
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			r := removing(t, bed, Options{Settle: 50 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if _, further := listsObjects(r); further {
					test.answer(w, end)
					return
				}
				next.ServeHTTP(w, r)
			})
			err := r.runSteps(ctx)
			if err == nil || !strings.Contains(err.Error(), "v1beta1 was removed, but not every object was read since: ") ||
				!strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "kubectl crdver rescue "+testbed.CronTabCRD) {
				t.Errorf("%v", err)
			}
			if got := r.report.Steps[0].Outcome; got != test.outcome {
				t.Errorf("the outcome is %s", got)
			}
			if got := versions(t, bed); got != "v1" {
				t.Errorf("versions are %s", got)
			}
			if got := r.back(); got != "restore it from a manifest" {
				t.Errorf("the way back: %s", got)
			}
		})
	}
}

// TestUnreadableIsPutBack has objects that are stored at the version which is removed,
// by a proof that is wrong: the version comes back, and they can be read.
func TestUnreadableIsPutBack(t *testing.T) {
	t.Parallel()
	bed := startServer(t)
	createCronTabs(t, bed, testbed.CronTabs("v1beta1", "v1"), 3)
	updateCRD(t, bed, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1") })
	direct := newCluster(t, bed.Config())
	_, err := direct.CRDs().Patch(t.Context(), testbed.CronTabCRD, cluster.PatchRequest{
		Type: types.MergePatchType, Body: []byte(`{"status":{"storedVersions":["v1"]}}`), Subresource: "status",
	})
	if err != nil {
		t.Fatal(err)
	}
	objects := direct.Objects(testbed.CronTabResource("v1"))
	var once atomic.Bool
	// However long the server may take otherwise: one such object is enough.
	r := removing(t, bed, Options{Settle: time.Hour}, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if lists, _ := listsObjects(r); lists && once.CompareAndSwap(false, true) {
			// The server goes by the CRD as it was for a moment (fact 3).
			await(t, func() bool {
				_, err := objects.ListMetadata(t.Context(), cluster.PageOptions{Limit: 500})
				return err != nil
			})
		}
		next.ServeHTTP(w, r)
	})
	err = r.runSteps(t.Context())
	if err == nil || !strings.Contains(err.Error(), "request to convert CR from an invalid group/version: stable.example.com/v1beta1") ||
		!strings.Contains(err.Error(), "v1beta1 was put back, unserved, so that the objects can be read") {
		t.Errorf("%v", err)
	}
	if got := versions(t, bed); got != "v1 v1beta1" {
		t.Errorf("versions are %s", got)
	}
	if got := r.back(); got != "restore it" {
		t.Errorf("the way back: %s", got)
	}
	await(t, func() bool {
		page, err := objects.ListMetadata(t.Context(), cluster.PageOptions{Limit: 500})
		return err == nil && len(page.Items) == 3
	})
}

// await waits for what comes soon.
func await(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("it did not become so")
			return
		}
	}
}

// TestRehearsalIsToldNowAndThen has one of which nobody knows how long it will be.
func TestRehearsalIsToldNowAndThen(t *testing.T) {
	t.Parallel()
	for _, total := range []int64{0, 100_000} {
		told := 0
		r := &run{Options: Options{Now: time.Now, Events: func(v1alpha1.Event) { told++ }}, step: &v1alpha1.Step{Action: v1alpha1.ActionRehearse}}
		show := r.rehearsing()
		for done := range int64(100_000) {
			show(done+1, total)
		}
		if told == 0 || told > 1000 {
			t.Errorf("of %d: told %d times", total, told)
		}
	}
}

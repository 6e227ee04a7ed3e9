package e2e_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestRequestsForTheCRDAreSentAgain cuts off every other request for the CRD from
// the first write on: a run that has begun is not broken off because of a read, nor
// because of a write that did not arrive.
func TestRequestsForTheCRDAreSentAgain(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "cut.example.com"
	name := b.scene(t, group, 30)
	behind, proxy := b.behindProxy(t)
	var mu sync.Mutex
	began := false
	cut := map[string]int{}
	proxy.StepIn(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.Contains(r.URL.Path, "/customresourcedefinitions/") || r.URL.Query().Get("dryRun") != "" {
			next.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		began = began || r.Method == http.MethodPatch
		if began {
			cut[r.Method]++
		}
		broken := began && cut[r.Method]%2 == 1
		mu.Unlock()
		if broken {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
	for _, args := range [][]string{{"promote", "v1", name}, {"retire", "v1beta1", name, "--allow-in-use"}} {
		mu.Lock()
		began = false // A plan that could not be made has changed nothing.
		mu.Unlock()
		behind.must(t, 0, append(args, "--yes")...)
	}
	mu.Lock()
	defer mu.Unlock()
	if cut[http.MethodGet] < 4 || cut[http.MethodPatch] < 8 {
		t.Errorf("hardly anything was cut: %v", cut)
	}
	b.wantStored(t, group, map[string]int{"v1": 30})
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	if hold := b.hold(t, name); hold != nil {
		t.Errorf("left behind: %+v", hold)
	}
}

// TestLostAnswers loses the answer of every write of the CRD, each of which has
// arrived: the run looks whether it did, and goes on, and sends none twice.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "lost.example.com"
	name := b.scene(t, group, 30)
	behind, proxy := b.behindProxy(t)
	var mu sync.Mutex
	written := map[string]int{}
	proxy.StepIn(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/customresourcedefinitions/") || r.URL.Query().Get("dryRun") != "" {
			next.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		mu.Lock()
		written[answer.Result().Status+" "+r.Header.Get("Content-Type")]++
		mu.Unlock()
		panic(http.ErrAbortHandler)
	})
	for _, step := range []struct {
		args []string
		// writes are the patches of the spec and of the status.
		writes int
	}{
		{[]string{"promote", "v1", name}, 2},
		{[]string{"deprecate", "v1beta1", name}, 1},
		{[]string{"deprecate", "v1beta1", name, "--undo"}, 1},
		{[]string{"retire", "v1beta1", name, "--until", "unserve"}, 2},
		{[]string{"restore", "v1beta1", name}, 1},
		{[]string{"promote", "v2", name, "--from", "v1"}, 4},
		{[]string{"retire", "v1beta1", name}, 2},
	} {
		mu.Lock()
		clear(written)
		mu.Unlock()
		got := behind.run(t, append(step.args, "--yes")...)
		if got.code != 0 {
			t.Fatalf("%s: %s", strings.Join(step.args, " "), got)
		}
		mu.Lock()
		if n := written["200 OK application/json-patch+json"]; n != step.writes {
			t.Errorf("%s: %v, want %d patches that were done\n%s", strings.Join(step.args, " "), written, step.writes, got.stderr)
		}
		for status := range written {
			if !strings.HasPrefix(status, "200 OK ") {
				t.Errorf("%s: one was sent again: %v", strings.Join(step.args, " "), written)
			}
		}
		mu.Unlock()
	}
	b.wantStored(t, group, map[string]int{"v2": 30})
	if hold := b.hold(t, name); hold != nil {
		t.Errorf("left behind: %+v", hold)
	}
}

// TestPlanWithoutAnswers loses the server while a plan is made: that is an error, said
// once and without URLs, and no refusal.
func TestPlanWithoutAnswers(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.scene(t, "unanswered.example.com", 5)
	behind, proxy := b.behindProxy(t)
	before := b.revisions(t)
	for path, says := range map[string]string{
		"/customresourcedefinitions/":            "asking the server about the step set-storage (dry run): patching CRD " + name + ": ",
		"/" + testbed.CronTabPlural + "/object-": "rehearsing the rewrite: rehearsing ",
	} {
		proxy.StepIn(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, path) {
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
		got := behind.run(t, "promote", "v1", name, "--yes")
		if got.code != 1 || got.stdout != "" || strings.Contains(got.stderr, "https://") || strings.Count(got.stderr, "the connection to the server ") != 1 {
			t.Errorf("want exit code 1, and the cause once: %s", got)
		}
		oneLine(t, got.stderr)
		contains(t, got.stderr, "planning promote of "+name+", nothing was changed: "+says)
	}
	b.wantUnwritten(t, before)
}

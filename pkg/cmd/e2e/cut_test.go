package e2e_test

import (
	"net/http"
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

package e2e_test

import (
	"net/http"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// traffic is a middleware that takes down what the tool asks for, and lets a
// test step in before a request is served.
type traffic struct {
	lock     sync.Mutex
	requests []string
	before   func(r *http.Request)
}

const dryRunMark = " (dry run)"

func (m *traffic) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.UserAgent(), "kubectl-crdver") {
			request := r.Method + " " + r.URL.Path
			if r.URL.Query().Get("dryRun") != "" {
				request += dryRunMark
			}
			m.lock.Lock()
			m.requests = append(m.requests, request)
			before := m.before
			m.lock.Unlock()
			if before != nil {
				before(r)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// stepIn has a function called before each request of the tool, nil for none.
func (m *traffic) stepIn(before func(r *http.Request)) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.before = before
}

// take returns the requests since the last call, reads apart.
func (m *traffic) take() (reads, dryRuns, writes []string) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, request := range m.requests {
		switch {
		case strings.HasPrefix(request, "GET "), strings.HasPrefix(request, "HEAD "):
			reads = append(reads, request)
		case strings.HasSuffix(request, dryRunMark):
			dryRuns = append(dryRuns, request)
		case strings.HasSuffix(request, "/selfsubjectaccessreviews"):
		default:
			writes = append(writes, request)
		}
	}
	m.requests = nil
	return reads, dryRuns, writes
}

// patchesCRD reports whether a request writes a CRD.
func patchesCRD(r *http.Request) bool {
	return r.Method == http.MethodPatch && r.URL.Query().Get("dryRun") == "" &&
		strings.Contains(r.URL.Path, "/customresourcedefinitions/") &&
		r.Header.Get("Content-Type") == string(types.JSONPatchType) // The hold is a merge patch.
}

// patchesObject reports whether a request writes a custom resource.
func patchesObject(r *http.Request) bool {
	return r.Method == http.MethodPatch && r.URL.Query().Get("dryRun") == "" &&
		strings.Contains(r.URL.Path, "/"+testbed.CronTabPlural+"/") && !strings.Contains(r.URL.Path, "customresourcedefinitions")
}

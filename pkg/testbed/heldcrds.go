package testbed

import (
	"context"
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// HeldCRDs keeps a server from learning of changes of CRDs, as one that is busy
// or far from its etcd: its own watch of them gets no more bytes while it is held.
// Whoever reads or writes CRDs is served all the same.
type HeldCRDs struct {
	mu   sync.Mutex
	open chan struct{}
}

// NewHeldCRDs returns one that does not hold yet.
func NewHeldCRDs() *HeldCRDs {
	h := &HeldCRDs{open: make(chan struct{})}
	close(h.open)
	return h
}

// Middleware is for [InProcessOptions].
func (h *HeldCRDs) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions" && r.URL.Query().Get("watch") != "" {
			w = responsewriter.WrapForHTTP1Or2(&heldWriter{ResponseWriter: w, held: h, ctx: r.Context()})
		}
		next.ServeHTTP(w, r)
	})
}

// Hold holds the watches from now on.
func (h *HeldCRDs) Hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = make(chan struct{})
}

// Release lets everything pass that was held.
func (h *HeldCRDs) Release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.open)
}

func (h *HeldCRDs) wait(ctx context.Context) {
	h.mu.Lock()
	open := h.open
	h.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
	}
}

type heldWriter struct {
	http.ResponseWriter
	held *HeldCRDs
	ctx  context.Context //nolint:containedctx // The writer lives as long as its request.
}

// Write implements http.ResponseWriter.
func (w *heldWriter) Write(data []byte) (int, error) {
	w.held.wait(w.ctx)
	return w.ResponseWriter.Write(data) //nolint:wrapcheck // Callers compare the errors of writers.
}

// Unwrap is what the wrapper asks for.
func (w *heldWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

package chaos_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// networkFaults are those of servers and of the way to them.
func networkFaults() []fault {
	var restart func() error
	var expired atomic.Int64
	return []fault{
		// Where the answer to a write of the CRD is lost, the next run goes on.
		{name: "connections are cut", onlyLong: true, inject: cut, codes: []int{0, 1, 3}, again: []again{{before: func(s *scene) { s.disturbWith(nil) }}}},
		{name: "429 storm", inject: storm(http.StatusTooManyRequests), codes: []int{0}},
		{name: "503 storm", onlyLong: true, inject: storm(http.StatusServiceUnavailable), codes: []int{0}},
		{name: "answers come late", onlyLong: true, disturb: late, codes: []int{0}},
		{
			// Fact 9 and case 75: a page's token expires, and no object is missed.
			name: "etcd is compacted between pages", objects: 620, codes: []int{0},
			disturb: func(s *scene) testbed.StepIn { return expire(s, &expired) },
			after: func(s *scene) {
				if expired.Load() == 0 {
					s.Error("no page was answered 410 Gone: the test shows nothing")
				}
			},
		},
		{
			name: "server goes and comes back", onlyLong: true, codes: []int{0},
			start:  func(s *scene) { restart = startRestartable(s) },
			inject: func(*scene) error { return nil },
			during: func(s *scene) { s.must(restart()) },
		},
		{name: "two servers switch one after the other", start: startTwo, codes: []int{0}},
	}
}

// cut resets streams before and after the server did its work, and closes
// connections.
func cut(s *scene) error {
	var n atomic.Int64
	s.disturbWith(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch n.Add(1) % 40 {
		case 7:
			panic(http.ErrAbortHandler)
		case 17: // Stored, but nobody is told.
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case 27: // In the midst of the answer.
			next.ServeHTTP(&half{ResponseWriter: w}, r)
			panic(http.ErrAbortHandler)
		case 37:
			go s.proxy.CloseConnections()
		}
		next.ServeHTTP(w, r)
	})
	return nil
}

// half loses the second half of each part of an answer.
type half struct{ http.ResponseWriter }

func (h *half) Write(data []byte) (int, error) {
	if _, err := h.ResponseWriter.Write(data[:len(data)/2]); err != nil {
		return 0, err
	}
	return len(data), nil
}

// storm answers everything with an error for some seconds.
func storm(code int) func(*scene) error {
	return func(s *scene) error {
		until := time.Now().Add(choose(30*time.Second, 3*time.Second))
		s.disturbWith(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if time.Now().After(until) {
				next.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Retry-After", "1")
			http.Error(w, "not now", code)
		})
		return nil
	}
}

// late holds answers back.
func late(*scene) testbed.StepIn {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if n.Add(1)%choose[int64](300, 100) == 50 {
			select {
			case <-time.After(choose(10*time.Second, 2*time.Second)):
			case <-r.Context().Done():
			}
		}
		next.ServeHTTP(w, r)
	}
}

// expire compacts etcd before each page but the first one, and lets the token of
// the page be one of a list that began before: the server keeps what is compacted
// in memory for a while, and a slow list would outlast that.
func expire(s *scene, expired *atomic.Int64) testbed.StepIn {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		query := r.URL.Query()
		var token struct {
			APIVersion string `json:"v"`
			Revision   int64  `json:"rv"`
			Start      string `json:"start"`
		}
		raw, err := base64.RawURLEncoding.DecodeString(query.Get("continue"))
		if err != nil || json.Unmarshal(raw, &token) != nil || token.Revision <= 1 {
			next.ServeHTTP(w, r)
			return
		}
		now, err := s.etcd.Get(r.Context(), "revision")
		if err == nil {
			_, err = s.etcd.Compact(r.Context(), now.Header.Revision)
		}
		if errors.Is(err, rpctypes.ErrCompacted) {
			err = nil // Another page was first.
		}
		token.Revision = 1
		text, encodeErr := json.Marshal(token)
		if err = errors.Join(err, encodeErr); err != nil {
			s.Errorf("compacting: %v", err)
		}
		query.Set("continue", base64.RawURLEncoding.EncodeToString(text))
		r.URL.RawQuery = query.Encode()
		next.ServeHTTP(&coded{ResponseWriter: w, gone: expired}, r)
	}
}

// coded counts the answers 410 Gone.
type coded struct {
	http.ResponseWriter
	gone *atomic.Int64
}

func (c *coded) WriteHeader(code int) {
	if code == http.StatusGone {
		c.gone.Add(1)
	}
	c.ResponseWriter.WriteHeader(code)
}

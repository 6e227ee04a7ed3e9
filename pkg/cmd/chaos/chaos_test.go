package chaos_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestChaos breaks one thing at a time. Without -long it leaves out what takes long,
// and what tests of other packages break, too.
func TestChaos(t *testing.T) {
	t.Parallel()
	var faults []fault
	faults = append(faults, networkFaults()...)
	faults = append(faults, processFaults(t.TempDir())...)
	faults = append(faults, peopleFaults()...)
	faults = append(faults, objectFaults()...)
	faults = append(faults, controlPlaneFaults()...)
	for _, f := range faults {
		if f.onlyLong && !*long {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			if !*long {
				t.Parallel()
			} // In full length one alone is enough for a small machine.
			play(t, f)
		})
	}
}

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

func signalFirst(signal syscall.Signal) func(*scene) error {
	return func(s *scene) error { return s.first.command.Process.Signal(signal) }
}

// processFaults are those of the plugin's own process, and of its files and clock.
func processFaults(dir string) []fault {
	return []fault{
		{name: "SIGTERM", onlyLong: true, inject: signalFirst(syscall.SIGTERM), codes: []int{130}, again: []again{{}}},
		{name: "SIGKILL", inject: signalFirst(syscall.SIGKILL), codes: []int{-1}, again: []again{{says: []string{"taking over"}}}},
		{
			name: "SIGSTOP", onlyLong: true, inject: signalFirst(syscall.SIGSTOP), codes: []int{0},
			during: func(s *scene) {
				time.Sleep(choose(time.Minute, 5*time.Second))
				s.must(signalFirst(syscall.SIGCONT)(s))
			},
		},
		{
			// It wakes up when another run has taken its place and done its work.
			name: "SIGSTOP and taken over", onlyLong: true, inject: signalFirst(syscall.SIGSTOP), codes: []int{3}, says: []string{"took over"},
			during: func(s *scene) {
				if !*long { // In full length the two minutes are waited for.
					s.must(s.editHold(func(hold *v1alpha1.Hold) { hold.TTLSeconds = 1 }))
				}
				second := s.run("--take-over")
				if code := second.end(); code != 0 {
					s.Errorf("exit code %d: %s", code, second)
				}
				s.must(signalFirst(syscall.SIGCONT)(s))
			},
		},
		{
			// It wakes up while another one is in the midst of it.
			name: "SIGSTOP and woken up in the midst of another run", onlyLong: true, inject: signalFirst(syscall.SIGSTOP), codes: []int{3},
			during: func(s *scene) {
				s.must(s.editHold(func(hold *v1alpha1.Hold) { hold.TTLSeconds = 1 }))
				second := s.run("--take-over", "--qps", choose("500", "100"))
				s.eventually("the second run migrates", func() bool {
					return strings.Contains(second.stderr.String(), `"step":"migrate"`) || closed(second.done)
				})
				s.must(signalFirst(syscall.SIGCONT)(s))
				if code := second.end(); code != 0 {
					s.Errorf("exit code %d: %s", code, second)
				}
			},
		},
		{
			name: "second run", onlyLong: true, codes: []int{0},
			inject: func(s *scene) error {
				second := s.run()
				if code := second.end(); code != 3 {
					return fmt.Errorf("%w: the second run: %s", errUnexpected, second)
				}
				s.wantText(second, []string{"another run is at work"})
				return nil
			},
		},
		{
			name: "no space for the report", onlyLong: true, args: []string{"--report", "/dev/full"}, codes: []int{1}, says: []string{"no space left on device"},
			again: []again{{}},
		},
		{
			// The file may have 1 or 2 KB, as the shell counts: its first line has
			// room, those of all objects that are refused have none. That the file is
			// incomplete weighs more than what it should have said.
			name: "no space in the midst of the report", limit: "ulimit -f 2", codes: []int{1},
			args: []string{"--report", filepath.Join(dir, "report")}, says: []string{"the report of the failures is incomplete", "file too large", refusal},
			inject: func(s *scene) error { return s.policies.refuseOneIn(10) },
			after: func(s *scene) {
				s.must(s.notTrimmed())
				s.must(s.policies.lift())
			},
			again: []again{{}},
		},
		{
			// What a clock says that is years ahead or behind has no one give way.
			name: "clock jumps", inject: signalFirst(syscall.SIGKILL), codes: []int{-1},
			again: []again{
				{before: heldAt(1970), code: 3, says: []string{"another run is at work"}},
				{before: heldAt(2099), code: 3, says: []string{"another run is at work"}},
				{args: []string{"--take-over"}, says: []string{"taking over"}},
			},
		},
	}
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// heldAt has the run that was killed be one on another machine, with another clock.
func heldAt(year int) func(*scene) {
	return func(s *scene) {
		s.must(s.editHold(func(hold *v1alpha1.Hold) {
			at := metav1.NewTime(time.Date(year, 1, 2, 3, 4, 5, 0, time.UTC))
			hold.StartedAt, hold.RenewedAt, hold.TTLSeconds = at, at, 1
			hold.Process = nil
		}))
	}
}

// peopleFaults are what others do to the CRD and to the rights meanwhile.
func peopleFaults() []fault {
	return []fault{
		{
			// Case 23.
			name: "storage is flipped back", codes: []int{3}, again: []again{{}},
			inject: func(s *scene) error {
				_, err := testbed.UpdateCRD(s.Context(), s.admin, s.name, func(crd *apiextensionsv1.CustomResourceDefinition) {
					testbed.SetStorageVersion(crd, "v1beta1")
				})
				return err
			},
			after: func(s *scene) { s.must(s.notTrimmed()) },
		},
		{
			name: "storedVersions is trimmed", codes: []int{3}, again: []again{{}},
			inject: func(s *scene) error {
				s.witness.expect(func() { s.witness.trimmed = true })
				return s.patchCRD(`{"status":{"storedVersions":["v1"]}}`, "status")
			},
		},
		{
			name: "CRD is deleted", codes: []int{1, 3}, gone: true, again: []again{{code: 1, says: []string{"no CustomResourceDefinition is named"}}},
			inject: func(s *scene) error {
				s.forget("")
				err := s.crew.end()
				return errors.Join(err, s.crds().ApiextensionsV1().CustomResourceDefinitions().Delete(s.Context(), s.name, metav1.DeleteOptions{}))
			},
			after: func(s *scene) {
				s.eventually("the CRD is gone", func() bool {
					response, err := s.etcd.Get(s.Context(), s.witness.crdKey)
					return err == nil && len(response.Kvs) == 0
				})
			},
		},
		{
			name: "objects of a namespace are deleted", onlyLong: true, codes: []int{0},
			inject: func(s *scene) error {
				s.forget("c")
				return s.client().Resource(s.at("v1")).Namespace("c").DeleteCollection(s.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
			},
		},
		{
			name: "rights are taken away", onlyLong: true, start: startOne, codes: []int{4, 3}, says: []string{"cannot patch resource"},
			inject: func(s *scene) error {
				s.guard.rights(func(a authorizer.Attributes) bool {
					return a.GetVerb() == "patch" && a.GetResource() == testbed.CronTabPlural
				})
				return nil
			},
			after: func(s *scene) { s.must(s.notTrimmed()) },
			again: []again{
				{code: 3, says: []string{"cannot patch resource"}},
				{before: func(s *scene) { s.guard.rights(nil) }},
			},
		},
		{
			// Case 69.
			name: "policy refuses one in a hundred", codes: []int{4}, says: []string{refusal},
			inject: func(s *scene) error { return s.policies.refuseOneIn(100) },
			after:  func(s *scene) { s.must(s.notTrimmed()) },
			again: []again{
				{code: 3, says: []string{refusal}},
				{before: func(s *scene) { s.must(s.policies.lift()) }},
			},
		},
	}
}

// objectFaults are objects that are not as most are.
func objectFaults() []fault {
	return []fault{
		{
			name: "objects wait for their finalizers", onlyLong: true, codes: []int{0},
			prepare: func(s *scene) {
				for i := range 10 {
					object := newObject(group, "v1beta1", "a", fmt.Sprintf("kept-%d", i), i)
					object.SetFinalizers([]string{"example.com/keep"})
					objects := s.client().Resource(s.at("v1beta1")).Namespace("a")
					_, err := objects.Create(s.Context(), object, metav1.CreateOptions{})
					s.must(err)
					s.must(objects.Delete(s.Context(), object.GetName(), metav1.DeleteOptions{}))
				}
			},
		},
		{
			name: "object of 1.4 MB", codes: []int{0},
			prepare: func(s *scene) {
				object := newObject(group, "v1beta1", "b", "large", 1)
				object.Object["spec"].(map[string]any)["image"] = strings.Repeat("x", 1_400_000)
				_, err := s.client().Resource(s.at("v1beta1")).Namespace("b").Create(s.Context(), object, metav1.CreateOptions{})
				s.must(err)
			},
		},
		{
			// Fact 12 and case 67: ratcheting does not spare what is required at the
			// root. The plan says so before anything is written.
			name: "object is no longer valid", codes: []int{3}, says: []string{"b/empty", "spec: Required value", "to resolve: "},
			after: func(s *scene) {
				key := "/registry/" + group + "/" + testbed.CronTabPlural + "/b/empty"
				s.witness.expect(func() { delete(s.witness.still, key) })
				s.must(patchMerge(s.Context(), s.client().Resource(s.at("v1beta1")).Namespace("b"), "empty", `{"spec":{"replicas":1}}`))
			},
			again: []again{{}},
			crd: func(crd *apiextensionsv1.CustomResourceDefinition) {
				testbed.Version(crd, "v1").Schema.OpenAPIV3Schema.Required = []string{"spec"}
			},
			prepare: func(s *scene) {
				object := newObject(group, "v1beta1", "b", "empty", 1)
				delete(object.Object, "spec")
				objects := s.client().Resource(s.at("v1beta1")).Namespace("b")
				_, err := objects.Create(s.Context(), object, metav1.CreateOptions{})
				s.must(err)
			},
		},
	}
}

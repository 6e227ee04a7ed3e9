package chaos_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

const group = "chaos.example.com"

// fault is something that goes wrong while objects are migrated, and what has to
// come of it.
type fault struct {
	name string
	// objects is how many are needed at least to show it.
	objects int
	// onlyLong leaves it out of the short form.
	onlyLong bool
	// start starts the servers; nil is one, in full length a kube-apiserver.
	start func(s *scene)
	// crd changes the CRD before it is created.
	crd func(crd *apiextensionsv1.CustomResourceDefinition)
	// prepare makes what has to be there before the migration.
	prepare func(s *scene)
	// args are more arguments of the first run, limit is what the shell does before.
	args  []string
	limit string
	// disturb deals with all requests of the plugin.
	disturb func(s *scene) testbed.StepIn
	// inject is called when a third of the objects is rewritten; the request that
	// does the next one waits for it.
	inject func(s *scene) error
	// during goes on from there, beside the first run.
	during func(s *scene)
	// codes are the exit codes that the first run may end with, says is what it
	// has to say.
	codes []int
	says  []string
	// after looks at what the first run left.
	after func(s *scene)
	// again are the runs that follow. Where the first one may end with 0, none has
	// to follow.
	again []again
	// gone says that there is nothing to finish: the CRD is deleted.
	gone bool
}

// again is a run that follows the first one.
type again struct {
	before func(s *scene)
	args   []string
	code   int
	says   []string
}

// scene is a CRD with objects that are migrated by the plugin through a proxy,
// while others write, and a witness watches.
type scene struct {
	testing.TB
	fault *fault

	etcd *clientv3.Client
	// admin is a way to a server that no fault disturbs, writers are those that
	// the writers have.
	admin   *rest.Config
	writers []*rest.Config
	proxy   *testbed.Proxy
	// policies are those of the server, guard is nil for a kube-apiserver.
	policies policies
	guard    *guard

	name       string
	objects    int
	namespaces []string
	kubeconfig string
	witness    *witness
	crew       *crew
	first      *process
	started    chan struct{}

	patches  atomic.Int64
	disturb  atomic.Pointer[testbed.StepIn]
	injected chan struct{}
	once     sync.Once
}

// play plays a fault from the beginning to the end.
func play(t *testing.T, f fault) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts API servers")
	}
	s := &scene{
		TB: t, fault: &f, name: testbed.CronTabPlural + "." + group, objects: max(cmp.Or(*objects, choose(5000, 300)), f.objects),
		namespaces: []string{"a", "b", "c"}, started: make(chan struct{}), injected: make(chan struct{}),
	}
	s.setUp()
	s.firstRun()
	for _, run := range f.again {
		if run.before != nil {
			run.before(s)
		}
		p := s.run(run.args...)
		if code := p.end(); code != run.code {
			t.Errorf("exit code %d, want %d: %s", code, run.code, p)
		}
		s.wantText(p, run.says)
	}
	if err := s.crew.end(); err != nil {
		t.Errorf("a writer: %v", err)
	}
	s.finish()
}

// setUp starts everything but the migration.
func (s *scene) setUp() {
	start := s.fault.start
	if start == nil { // What users have, where there is time for it.
		start = choose(startControlPlane, startOne)
	}
	start(s)
	crd := testbed.CronTabs("v1beta1", "v1")
	crd.Spec.Group, crd.Name = group, s.name
	if s.fault.crd != nil {
		s.fault.crd(crd)
	}
	_, err := testbed.CreateCRD(s.Context(), s.admin, crd)
	s.must(err)
	s.must(testbed.CreateObjects(s.Context(), s.admin, s.at("v1beta1"), s.objects, testbed.ObjectOptions{
		Namespaces: s.namespaces,
		New: func(version, namespace, name string, i int) *unstructured.Unstructured {
			return newObject(group, version, namespace, name, i)
		},
	}))
	if s.fault.prepare != nil {
		s.fault.prepare(s)
	}
	s.kubeconfig = filepath.Join(s.TempDir(), "kubeconfig")
	s.must(testbed.WriteKubeconfig(s.kubeconfig, s.proxy.Config()))
	if s.fault.disturb != nil {
		s.disturbWith(s.fault.disturb(s))
	}
	s.proxy.StepIn(s.stepIn)
	s.witness = watch(s.TB, s.etcd, group, s.name)
	// Writers keep to two namespaces: a fault may delete the third.
	s.crew, err = begin(context.WithoutCancel(s.Context()), group, s.namespaces[:2], choose(5*time.Minute, time.Minute), s.writers)
	s.must(err)
	s.Cleanup(func() { _ = s.crew.end() }) // What went wrong was said.
}

// firstRun has the fault happen in the midst of a migration.
func (s *scene) firstRun() {
	f := s.fault
	s.first = s.runLimited(f.limit, f.args...)
	close(s.started)
	if f.inject != nil {
		select {
		case <-s.injected:
		case <-s.first.done:
			s.Fatalf("it ended before anything went wrong: %s", s.first)
		}
		if f.during != nil {
			f.during(s)
		}
	}
	code := s.first.end()
	s.Logf("the first run ended with %d", code)
	if !slices.Contains(f.codes, code) {
		s.Errorf("exit code %d, want one of %d: %s", code, f.codes, s.first)
	}
	s.wantText(s.first, f.says)
	if f.after != nil {
		f.after(s)
	}
}

// finish makes sure of the end: all is migrated, and nothing is lost or altered.
func (s *scene) finish() {
	s.must(s.witness.sync(s.Context()))
	s.witness.expect(func() {
		s.witness.trimmed = false
		s.witness.check(s.witness.revision)
		for _, problem := range s.witness.problems {
			s.Error(problem)
		}
	})
	stored, err := testbed.Stored(s.Context(), s.etcd, group, testbed.CronTabPlural)
	s.must(err)
	s.Logf("%d revisions watched, %d writes of others, %d objects", s.witness.checked, s.crew.writes(), len(stored))
	if s.fault.gone {
		if len(stored) > 0 {
			s.Errorf("%d objects are there, of a CRD that is not", len(stored))
		}
		return
	}
	if err := s.crew.left(stored, s.witness.still); err != nil {
		s.Error(err)
	}
	found, old := map[string]bool{}, 0
	for _, object := range stored {
		found[object.Key] = true
		if object.Version() != "v1" {
			old++
		}
	}
	if old > 0 {
		s.Errorf("%d of %d objects are not persisted at v1", old, len(stored))
	}
	for key := range s.witness.still {
		if !found[key] {
			s.Errorf("%s is lost", key)
		}
	}
	crd := s.crd()
	if !slices.Equal(crd.Status.StoredVersions, []string{"v1"}) {
		s.Errorf("storedVersions is %q", crd.Status.StoredVersions)
	}
	if left, ok := crd.Annotations[lifecycle.HoldAnnotation]; ok {
		s.Errorf("left behind: %s", left)
	}
}

// run starts the plugin.
func (s *scene) run(args ...string) *process { return s.runLimited("", args...) }

func (s *scene) runLimited(limit string, args ...string) *process {
	p, err := launch(s.Context(), s.kubeconfig, limit, append([]string{"promote", "v1", s.name, "--yes", "--progress", "json", "--timeout", "10m"}, args...)...)
	s.must(err)
	return p
}

// stepIn lets the fault happen at its time.
func (s *scene) stepIn(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if patchesObject(r) && s.patches.Add(1) == int64(s.objects/3) && s.fault.inject != nil {
		s.once.Do(func() {
			<-s.started
			if err := s.fault.inject(s); err != nil {
				s.Errorf("letting it happen: %v", err)
			}
			close(s.injected)
		})
	}
	if disturb := s.disturb.Load(); disturb != nil {
		(*disturb)(w, r, next)
		return
	}
	next.ServeHTTP(w, r)
}

// disturbWith has a function deal with the requests of the plugin; nil has none.
func (s *scene) disturbWith(stepIn testbed.StepIn) {
	if stepIn == nil {
		s.disturb.Store(nil)
		return
	}
	s.disturb.Store(&stepIn)
}

// patchesObject reports whether a request rewrites a custom resource.
func patchesObject(r *http.Request) bool {
	return r.Method == http.MethodPatch && r.URL.Query().Get("dryRun") == "" && strings.HasPrefix(r.URL.Path, "/apis/"+group+"/")
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) wantText(p *process, parts []string) {
	s.Helper()
	for _, part := range parts {
		if !strings.Contains(p.stdout.String()+p.stderr.String(), part) {
			s.Errorf("it does not say %q: %s", part, p)
		}
	}
}

func (s *scene) at(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: testbed.CronTabPlural}
}

func (s *scene) client() dynamic.Interface {
	client, err := dynamic.NewForConfig(s.admin)
	s.must(err)
	return client
}

func (s *scene) crds() clientset.Interface {
	client, err := clientset.NewForConfig(s.admin)
	s.must(err)
	return client
}

func (s *scene) crd() *apiextensionsv1.CustomResourceDefinition {
	crd, err := s.crds().ApiextensionsV1().CustomResourceDefinitions().Get(s.Context(), s.name, metav1.GetOptions{})
	s.must(err)
	return crd
}

// patchCRD changes the CRD as somebody else would.
func (s *scene) patchCRD(body string, subresources ...string) error {
	crds := s.client().Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	return patchMerge(s.Context(), crds, s.name, body, subresources...)
}

// editHold changes what the annotation says of the run that holds the CRD.
func (s *scene) editHold(change func(hold *v1alpha1.Hold)) error {
	hold, err := lifecycle.ReadHold(s.crd().Annotations)
	if err != nil || hold == nil {
		return fmt.Errorf("%w: the hold is %v, %w", errUnexpected, hold, err)
	}
	change(hold)
	return s.patchCRD(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, lifecycle.HoldAnnotation, lifecycle.HoldText(*hold)))
}

// forget tells the witness that others delete the objects of a namespace, "" for
// all of them.
func (s *scene) forget(namespace string) {
	s.witness.expect(func() {
		maps.DeleteFunc(s.witness.still, func(key, _ string) bool {
			return namespace == "" || strings.Contains(key, "/"+namespace+"/")
		})
	})
}

// eventually waits until a check holds.
func eventually(what string, check func() bool) error {
	for deadline := time.Now().Add(5 * time.Minute); !check(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: not so after five minutes: %s", errUnexpected, what)
		}
	}
	return nil
}

// notTrimmed returns an error where v1beta1 is not in storedVersions any more.
func (s *scene) notTrimmed() error {
	if stored := s.crd().Status.StoredVersions; !slices.Contains(stored, "v1beta1") {
		return fmt.Errorf("%w: storedVersions is %q", errUnexpected, stored)
	}
	return nil
}

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// policies refuse updates of objects, until they are lifted.
type policies interface {
	// refuseOneIn refuses one object in 10, or in 100.
	refuseOneIn(n int) error
	lift() error
}

// refusal is what policies say.
const refusal = "not on my watch"

// suffixOf returns what the names of one object in 10, or in 100, end with.
func suffixOf(n int) string { return fmt.Sprint(n + 7)[1:] }

// guard is what an admission plugin and an authorizer say, which a fault changes.
type guard struct {
	mu     sync.Mutex
	refuse func(a admission.Attributes) error
	deny   func(a authorizer.Attributes) bool
}

func (g *guard) refuseOneIn(n int) error {
	suffix := suffixOf(n)
	g.policy(func(a admission.Attributes) error {
		if strings.HasPrefix(a.GetName(), "object-") && strings.HasSuffix(a.GetName(), suffix) {
			return errors.New(refusal)
		}
		return nil
	})
	return nil
}

func (g *guard) lift() error {
	g.policy(nil)
	return nil
}

// policy has a function say which updates are refused; nil refuses none.
func (g *guard) policy(refuse func(a admission.Attributes) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse = refuse
}

// rights has a function say what the plugin may not do; nil lets it do all.
func (g *guard) rights(deny func(a authorizer.Attributes) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deny = deny
}

func (g *guard) Handles(operation admission.Operation) bool { return operation == admission.Update }

func (g *guard) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	g.mu.Lock()
	refuse := g.refuse
	g.mu.Unlock()
	if _, isCRD := a.GetObject().(*apiextensions.CustomResourceDefinition); refuse == nil || isCRD {
		return nil
	}
	if err := refuse(a); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

func (g *guard) authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.deny != nil && g.deny(a) {
		return authorizer.DecisionDeny, "the right was taken away", nil
	}
	return authorizer.DecisionAllow, "", nil
}

// user is whom the plugin is for the servers in this process.
const user = "jane"

// asUser impersonates that user.
func asUser(config *rest.Config) *rest.Config {
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	return config
}

// inProcess starts a server in this process.
func (s *scene) inProcess(options testbed.InProcessOptions) *testbed.InProcess {
	s.guard = &guard{}
	s.policies = s.guard
	options.Admission, options.Authorizer = s.guard, authorizer.AuthorizerFunc(s.guard.authorize)
	bed, err := testbed.StartInProcess(s.Context(), options)
	s.must(err)
	s.Cleanup(bed.Stop)
	return bed
}

// through has the plugin reach servers through the proxy.
func (s *scene) through(servers ...*rest.Config) {
	var err error
	s.proxy, err = testbed.StartProxy(s.Context(), servers...)
	s.must(err)
	s.Cleanup(s.proxy.Stop)
}

// startOne starts one server in this process.
func startOne(s *scene) {
	bed := s.inProcess(testbed.InProcessOptions{})
	s.etcd, s.admin, s.writers = bed.Etcd(), bed.Config(), []*rest.Config{bed.Config()}
	s.through(asUser(bed.Config()))
}

// startRestartable starts one server on an etcd of its own, which everybody
// reaches through a proxy, so that another server can take its place.
func startRestartable(s *scene) (restart func() error) {
	etcd, err := testbed.StartEtcd(s.Context(), testbed.EtcdOptions{})
	s.must(err)
	s.Cleanup(etcd.Stop)
	bed := s.inProcess(testbed.InProcessOptions{Etcd: etcd})
	others, err := testbed.StartProxy(s.Context(), bed.Config())
	s.must(err)
	s.Cleanup(others.Stop)
	s.etcd, s.admin, s.writers = etcd.Client(), others.Config(), []*rest.Config{others.Config()}
	s.through(asUser(bed.Config()))
	return func() error {
		bed.Stop()
		time.Sleep(time.Second)
		next, err := testbed.StartInProcess(context.WithoutCancel(s.Context()), testbed.InProcessOptions{Etcd: etcd, Authorizer: authorizer.AuthorizerFunc(s.guard.authorize)})
		if err != nil {
			return err
		}
		s.Cleanup(next.Stop)
		return errors.Join(others.Lead(next.Config()), s.proxy.Lead(asUser(next.Config())))
	}
}

// startTwo starts two servers on one etcd behind a balancer. The second one
// learns late that the storage version changed.
func startTwo(s *scene) {
	etcd, err := testbed.StartEtcd(s.Context(), testbed.EtcdOptions{})
	s.must(err)
	s.Cleanup(etcd.Stop)
	held := testbed.NewHeldCRDs()
	first := s.inProcess(testbed.InProcessOptions{Etcd: etcd})
	second := s.inProcess(testbed.InProcessOptions{Etcd: etcd, Middleware: held.Middleware})
	s.etcd, s.admin, s.writers = etcd.Client(), first.Config(), []*rest.Config{first.Config(), second.Config()}
	s.through(asUser(first.Config()), asUser(second.Config()))
	s.fault.prepare = func(s *scene) {
		_, err := testbed.WaitForCRD(s.Context(), second.Config(), s.name)
		s.must(err)
		held.Hold()
		go func() {
			defer held.Release()
			for s.Context().Err() == nil && !testbed.Version(s.crd(), "v1").Storage {
				time.Sleep(50 * time.Millisecond)
			}
			time.Sleep(choose(6*time.Second, 3*time.Second))
		}()
	}
}

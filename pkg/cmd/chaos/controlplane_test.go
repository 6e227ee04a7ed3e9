//go:build controlplane

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// controlPlaneFaults need real processes, namespaces and RBAC. They are played in
// full length only: starting a control plane takes longer than all the others.
func controlPlaneFaults() []fault {
	var bed *testbed.Full
	return []fault{
		{
			name: "kube-apiserver is killed and restarted", onlyLong: true, codes: []int{0},
			start: func(s *scene) {
				bed = s.controlPlane(testbed.FullOptions{})
				s.through(bed.Config())
			},
			inject: func(*scene) error {
				bed.Kill()
				return nil
			},
			during: func(s *scene) {
				time.Sleep(3 * time.Second)
				s.must(bed.Start(s.Context()))
			},
		},
		{
			name: "two kube-apiservers behind a balancer", onlyLong: true, codes: []int{0},
			start: func(s *scene) {
				bed = s.controlPlane(testbed.FullOptions{})
				other, err := bed.StartAnotherAPIServer(s.Context())
				s.must(err)
				s.through(bed.Config(), other.Config())
				s.writers = append(s.writers, other.Config())
				s.fault.prepare = func(s *scene) {
					_, err := testbed.WaitForCRD(s.Context(), other.Config(), s.name)
					s.must(err)
				}
			},
		},
		{
			name: "namespace is deleted", onlyLong: true, codes: []int{0},
			start: func(s *scene) {
				bed = s.controlPlane(testbed.FullOptions{ControllerManager: true})
				s.through(bed.Config())
			},
			inject: func(s *scene) error {
				s.forget("c")
				client, err := kubernetes.NewForConfig(s.admin)
				if err != nil {
					return err
				}
				return client.CoreV1().Namespaces().Delete(s.Context(), "c", metav1.DeleteOptions{})
			},
		},
		{
			name: "RBAC takes rights away", onlyLong: true, codes: []int{4, 3}, says: []string{"cannot patch resource"},
			start: func(s *scene) {
				bed = s.controlPlane(testbed.FullOptions{})
				config, err := bed.User(s.Context(), user, rule("*"))
				s.must(err)
				s.through(config)
			},
			inject: func(s *scene) error {
				_, err := bed.User(s.Context(), user, rule("get", "list", "watch"), crds())
				return err
			},
			after: func(s *scene) { s.must(s.notTrimmed()) },
			again: []again{
				{code: 3, says: []string{"you lack permissions that the plan needs", "patch " + testbed.CronTabPlural + "." + group}},
				{before: func(s *scene) {
					_, err := bed.User(s.Context(), user, rule("*"))
					s.must(err)
				}},
			},
		},
	}
}

// startControlPlane starts a control plane whose user may do anything.
func startControlPlane(s *scene) {
	bed := s.controlPlane(testbed.FullOptions{})
	config, err := bed.User(s.Context(), user, rule("*"))
	s.must(err)
	s.through(config)
	s.policies = &admissionPolicies{scene: s}
}

// admissionPolicies are ValidatingAdmissionPolicies.
type admissionPolicies struct {
	scene  *scene
	n      int
	remove func(context.Context) error
}

func (p *admissionPolicies) refuseOneIn(n int) (err error) {
	p.remove, err = testbed.CreatePolicy(p.scene.Context(), p.scene.admin, testbed.Policy{
		Name:       "chaos",
		Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{testbed.CronTabPlural}},
		Expression: fmt.Sprintf("!object.metadata.name.startsWith('object-') || !object.metadata.name.endsWith('%s')", suffixOf(n)), Message: refusal,
	})
	if err != nil {
		return err
	}
	p.n = n
	return p.until(true)
}

func (p *admissionPolicies) lift() error {
	if err := p.remove(p.scene.Context()); err != nil {
		return err
	}
	return p.until(false)
}

// until waits until an object is refused, or no longer.
func (p *admissionPolicies) until(refused bool) error {
	i := p.n + 7
	name, namespace := fmt.Sprintf("object-%06d", i), p.scene.namespaces[i%len(p.scene.namespaces)]
	var answer error
	err := eventually("the policy is heeded", func() bool {
		_, answer = p.scene.client().Resource(p.scene.at("v1")).Namespace(namespace).Patch(p.scene.Context(), name, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"probe":"x"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		is := answer != nil && strings.Contains(answer.Error(), refusal)
		return is == refused && (is || answer == nil)
	})
	if err != nil {
		return errors.Join(err, answer)
	}
	return nil
}

func rule(verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: verbs}
}

// crds lets a user write CRDs, but nothing of them.
func crds() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{"apiextensions.k8s.io"}, Verbs: []string{"patch", "update"},
		Resources: []string{"customresourcedefinitions", "customresourcedefinitions/status"},
	}
}

// controlPlane starts a control plane with the namespaces of the scene.
func (s *scene) controlPlane(options testbed.FullOptions) *testbed.Full {
	bed, err := testbed.StartFull(s.Context(), options)
	s.must(err)
	s.Cleanup(bed.Stop)
	s.must(testbed.CreateNamespaces(s.Context(), bed.Config(), s.namespaces...))
	s.etcd, s.admin, s.writers = bed.Etcd(), bed.Config(), []*rest.Config{bed.Config()}
	return bed
}

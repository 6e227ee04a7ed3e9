//go:build controlplane

package chaos_test

import (
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

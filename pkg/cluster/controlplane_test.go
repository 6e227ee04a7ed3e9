//go:build controlplane

package cluster_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/google/go-cmp/cmp"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// What only a whole control plane has: RBAC, admission policies, the aggregator,
// in-tree migrations, namespaces.
func TestFullServer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	bed, err := testbed.StartFull(ctx, testbed.FullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Stop)
	client, err := kubernetes.NewForConfig(bed.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := testbed.CreateCRD(ctx, bed.Config(), testbed.CronTabs("v1beta1", "v1")); err != nil {
		t.Fatal(err)
	}
	if err := testbed.CreateObjects(ctx, bed.Config(), testbed.CronTabResource("v1"), 3, testbed.ObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, bed.Config())
	resource := testbed.CronTabResource("v1")
	key := types.NamespacedName{Namespace: "default", Name: "object-000000"}
	noOp := cluster.PatchRequest{Type: types.MergePatchType, Body: []byte(`{}`)}

	t.Run("identity", func(t *testing.T) {
		namespace, err := client.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if identity, err := c.Identity(ctx); err != nil || identity.KubeSystemUID != string(namespace.UID) {
			t.Errorf("%+v, %v", identity, err)
		}
	})

	t.Run("access", func(t *testing.T) {
		config, err := bed.User(ctx, "jane",
			rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{testbed.CronTabGroup}, Resources: []string{testbed.CronTabPlural}},
			rbacv1.PolicyRule{Verbs: []string{"patch"}, APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}},
		)
		if err != nil {
			t.Fatal(err)
		}
		jane := newCluster(t, config)
		patchObjects := cluster.Rule{Verb: "patch", Group: testbed.CronTabGroup, Resource: testbed.CronTabPlural}
		patchStatus := cluster.Rule{Verb: "patch", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Subresource: "status", Name: testbed.CronTabCRD}
		missing, err := jane.MissingRules(ctx, []cluster.Rule{
			{Verb: "list", Group: testbed.CronTabGroup, Resource: testbed.CronTabPlural},
			patchObjects,
			{Verb: "patch", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: testbed.CronTabCRD},
			patchStatus,
		})
		if diff := cmp.Diff([]cluster.Rule{patchObjects, patchStatus}, missing); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
		_, err = jane.Objects(resource).PatchMetadata(ctx, key, noOp)
		if failure := cluster.Explain(err); failure.Reason != cluster.ReasonForbidden || failure.By != v1alpha1.PartyRBAC || !failure.Refused {
			t.Errorf("%+v", failure)
		}
		if identity, err := jane.Identity(ctx); err != nil || identity.KubeSystemUID != "" {
			t.Errorf("%+v, %v", identity, err)
		}
	})

	t.Run("policy", func(t *testing.T) {
		for _, reason := range []metav1.StatusReason{metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge} {
			name := "no-" + strings.ToLower(string(reason))
			createPolicy(ctx, t, client, name, reason)
			waitUntil(t, func() bool {
				_, err := c.Objects(resource).PatchMetadata(ctx, key, noOp)
				if err == nil {
					return false
				}
				failure := cluster.Explain(err)
				t.Logf("%s: %+v", reason, failure)
				if failure.Reason != cluster.ReasonAdmissionDenied || failure.By != v1alpha1.PartyPolicy || failure.Name != name || !failure.Refused {
					t.Errorf("%+v", failure)
				}
				return true
			})
			if err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			waitUntil(t, func() bool {
				_, err := c.Objects(resource).PatchMetadata(ctx, key, noOp)
				return err == nil
			})
		}
	})

	t.Run("discovery", func(t *testing.T) {
		services, err := c.Discovery().APIServices(ctx, testbed.CronTabGroup)
		if err != nil || len(services) != 2 || !services[0].Automanaged || services[0].Service != "" {
			t.Errorf("%+v, %v", services, err)
		}
		waitUntil(t, func() bool { // The aggregator downloads it now and then.
			versions, err := c.Discovery().AggregatedVersions(ctx, resource.GroupResource())
			return err == nil && slices.Equal(versions, []string{"v1", "v1beta1"})
		})
		resources, err := c.Discovery().ListableResources(ctx)
		pods := slices.ContainsFunc(resources, func(r cluster.Resource) bool { return r.Kind == "Pod" && r.Group == "" && r.Namespaced })
		if err != nil || !pods {
			t.Errorf("%v, %v", resources, err)
		}
		// The metadata of any resource can be listed, the core group's, too.
		page, err := c.Objects(metav1.SchemeGroupVersion.WithResource("namespaces")).ListMetadata(ctx, cluster.PageOptions{})
		if err == nil {
			t.Errorf("namespaces in group meta.k8s.io: %v", page)
		}
		core := resource
		core.Group, core.Version, core.Resource = "", "v1", "namespaces"
		if page, err = c.Objects(core).ListMetadata(ctx, cluster.PageOptions{}); err != nil || len(page.Items) < 4 {
			t.Errorf("%v, %v", page, err)
		}
	})

	t.Run("migrations", func(t *testing.T) {
		for _, name := range []string{"first", "second"} {
			migration := &storagemigrationv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: name}}
			migration.Spec.Resource = metav1.GroupResource{Group: testbed.CronTabGroup, Resource: testbed.CronTabPlural}
			if name == "second" {
				migration.Spec.Resource.Resource = "others"
			}
			if _, err := client.StoragemigrationV1().StorageVersionMigrations().Create(ctx, migration, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		migrations, err := c.Migrations(ctx, resource.GroupResource())
		if err != nil || len(migrations) != 1 || migrations[0].Name != "first" || migrations[0].Phase != cluster.MigrationPending || migrations[0].Created.IsZero() {
			t.Errorf("%+v, %v", migrations, err)
		}
	})
}

// createPolicy creates a policy that refuses every update of CronTabs.
func createPolicy(ctx context.Context, t *testing.T, client kubernetes.Interface, name string, reason metav1.StatusReason) {
	t.Helper()
	fail := admissionregistrationv1.Fail
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{testbed.CronTabGroup}, APIVersions: []string{"*"}, Resources: []string{testbed.CronTabPlural},
					},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "not today", Reason: &reason}},
		},
	}
	if _, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        name,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	if _, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func waitUntil(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not become so")
		}
	}
}

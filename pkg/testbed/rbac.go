package testbed

import (
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// grantTimeout bounds the wait until the server acts on new rights.
const grantTimeout = 2 * time.Minute

// grant gives rights to a user with a ClusterRole of its own, and waits until the
// server acts on them.
func grant(ctx context.Context, config *rest.Config, user string, rules []rbacv1.PolicyRule) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	meta := metav1.ObjectMeta{Name: "testbed:" + user}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}
	_, err = client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = client.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing ClusterRole %s: %w", meta.Name, err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", APIGroup: rbacv1.GroupName, Name: meta.Name},
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("writing ClusterRoleBinding %s: %w", meta.Name, err)
	}
	for _, rule := range rules {
		if err := waitAllowed(ctx, client, user, rule); err != nil {
			return err
		}
	}
	return nil
}

// waitAllowed waits until the user may do the first thing that the rule allows.
func waitAllowed(ctx context.Context, client kubernetes.Interface, user string, rule rbacv1.PolicyRule) error {
	if len(rule.APIGroups) == 0 || len(rule.Resources) == 0 || len(rule.Verbs) == 0 {
		return nil
	}
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	attributes := &authorizationv1.ResourceAttributes{
		Verb:        rule.Verbs[0],
		Group:       rule.APIGroups[0],
		Resource:    resource,
		Subresource: subresource,
	}
	if len(rule.ResourceNames) > 0 {
		attributes.Name = rule.ResourceNames[0]
	}
	ctx, cancel := context.WithTimeout(ctx, grantTimeout)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: attributes}}
		review, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("reviewing access: %w", err)
		}
		return review.Status.Allowed, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %s may %s %s: %w", user, rule.Verbs[0], rule.Resources[0], err)
	}
	return nil
}

// waitManager waits until kube-controller-manager works: until it made the
// service account of the namespace default.
func (f *Full) waitManager(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(f.config)
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if err := f.manager.failed(); err != nil {
			return false, err
		}
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading the service account default: %w", err)
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for kube-controller-manager: %w", err)
	}
	return nil
}

package cluster

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// MissingRules implements [Interface].
func (c *Cluster) MissingRules(ctx context.Context, rules []Rule) ([]Rule, error) {
	var missing []Rule
	for _, rule := range rules {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb:        rule.Verb,
				Group:       rule.Group,
				Resource:    rule.Resource,
				Subresource: rule.Subresource,
				Name:        rule.Name,
				Namespace:   rule.Namespace,
			},
		}}
		answer, err := c.authorization.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reviewing access: %w", ErrNotSupported)
		}
		if err != nil {
			return nil, fmt.Errorf("reviewing whether %s may be done: %w", rule, plain(err))
		}
		if !answer.Status.Allowed {
			missing = append(missing, rule)
		}
	}
	return missing, nil
}

// String describes the rule as kubectl auth can-i takes it:
// "patch customresourcedefinitions.apiextensions.k8s.io/NAME --subresource=status".
func (r Rule) String() string {
	text := r.Verb + " " + schema.GroupResource{Group: r.Group, Resource: r.Resource}.String()
	if r.Name != "" {
		text += "/" + r.Name
	}
	if r.Subresource != "" {
		text += " --subresource=" + r.Subresource
	}
	if r.Namespace != "" {
		text += " -n " + r.Namespace
	}
	return text
}

// Identity implements [Interface].
func (c *Cluster) Identity(ctx context.Context) (v1alpha1.ClusterIdentity, error) {
	server, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return v1alpha1.ClusterIdentity{}, fmt.Errorf("reading the address of the server: %w", err)
	}
	identity := v1alpha1.ClusterIdentity{Server: strings.TrimSuffix(server.String(), "/"), Context: c.context}
	result := c.raw.Get().AbsPath("api", "v1", "namespaces", metav1.NamespaceSystem).
		SetHeader("Accept", acceptMetadata).
		MaxRetries(0).
		Do(ctx)
	namespace, err := decodeMetadata[metav1.PartialObjectMetadata](result)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		// The identity is weaker without it, but there is one.
	case err != nil:
		return v1alpha1.ClusterIdentity{}, fmt.Errorf("reading namespace %s: %w", metav1.NamespaceSystem, plain(err))
	default:
		identity.KubeSystemUID = string(namespace.UID)
	}
	return identity, nil
}

// Warnings implements [Interface].
func (c *Cluster) Warnings(ctx context.Context, resource schema.GroupVersionResource) ([]string, error) {
	var warnings collector
	o := objects{cluster: c, resource: resource}
	err := o.list(c.raw, PageOptions{Limit: 1}, acceptMetadataList).
		WarningHandlerWithContext(&warnings).
		Do(ctx).
		Error()
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", o, plain(err))
	}
	return warnings, nil
}

// collector keeps the texts of Warning headers. One request calls it from one
// goroutine.
type collector []string

func (c *collector) HandleWarningHeaderWithContext(_ context.Context, code int, _ string, text string) {
	// 299 is the only code that Kubernetes uses; proxies add others.
	if code == 299 && text != "" {
		*c = append(*c, text)
	}
}

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// WebhookKind is what an admission webhook does.
type WebhookKind string

// The kinds.
const (
	WebhookValidating WebhookKind = "validating"
	WebhookMutating   WebhookKind = "mutating"
)

// defaultWebhookTimeout is the server's own.
const defaultWebhookTimeout = 10 * time.Second

// AdmissionWebhook is what matters of an admission webhook.
type AdmissionWebhook struct {
	// Name is configuration/webhook.
	Name    string
	Kind    WebhookKind
	Timeout time.Duration
	// Status says that it is called when the status subresource is updated.
	Status bool
}

// String returns "guard/validate.example.com (validating, timeout 10s)".
func (w AdmissionWebhook) String() string {
	return fmt.Sprintf("%s (%s, timeout %s)", w.Name, w.Kind, w.Timeout)
}

// AdmissionWebhooks implements [Interface]. A rule that names a version counts
// whatever the version is, because the server converts objects for it, and one
// that names a subresource counts, because its writes persist the whole object.
// Selectors and conditions are not evaluated: they may match an object that is
// created in a moment.
func (c *Cluster) AdmissionWebhooks(ctx context.Context, resource schema.GroupVersionResource) ([]AdmissionWebhook, error) {
	var found []AdmissionWebhook
	add := func(kind WebhookKind, configuration, name string, timeout *int32, rules []admissionv1.RuleWithOperations) {
		if !slices.ContainsFunc(rules, func(rule admissionv1.RuleWithOperations) bool { return writes(rule, resource.GroupResource()) }) {
			return
		}
		webhook := AdmissionWebhook{Name: configuration + "/" + name, Kind: kind, Timeout: defaultWebhookTimeout}
		webhook.Status = slices.ContainsFunc(rules, func(rule admissionv1.RuleWithOperations) bool {
			return updatesStatus(rule, resource.GroupResource())
		})
		if timeout != nil {
			webhook.Timeout = time.Duration(*timeout) * time.Second
		}
		found = append(found, webhook)
	}
	err := c.eachConfiguration(ctx, "validatingwebhookconfigurations", func(raw json.RawMessage) error {
		var configuration admissionv1.ValidatingWebhookConfiguration
		if err := json.Unmarshal(raw, &configuration); err != nil {
			return err //nolint:wrapcheck // eachConfiguration does.
		}
		for _, w := range configuration.Webhooks {
			add(WebhookValidating, configuration.Name, w.Name, w.TimeoutSeconds, w.Rules)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = c.eachConfiguration(ctx, "mutatingwebhookconfigurations", func(raw json.RawMessage) error {
		var configuration admissionv1.MutatingWebhookConfiguration
		if err := json.Unmarshal(raw, &configuration); err != nil {
			return err //nolint:wrapcheck // eachConfiguration does.
		}
		for _, w := range configuration.Webhooks {
			add(WebhookMutating, configuration.Name, w.Name, w.TimeoutSeconds, w.Rules)
		}
		return nil
	})
	return found, err
}

// eachConfiguration visits the webhook configurations of a resource, page by page.
func (c *Cluster) eachConfiguration(ctx context.Context, resource string, visit func(json.RawMessage) error) error {
	params := map[string]string{"limit": migrationPageSize}
	for {
		body, _, err := getJSON(ctx, c.raw, runtime.ContentTypeJSON, params, "apis", admissionv1.GroupName, "v1", resource)
		if token, expired := InconsistentContinue(err); expired && token != "" {
			params["continue"] = token
			continue
		}
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("listing %s: %w", resource, ErrNotSupported)
		}
		if err != nil {
			return fmt.Errorf("listing %s: %w", resource, plain(err))
		}
		var page struct {
			metav1.ListMeta `json:"metadata"`
			Items           []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return fmt.Errorf("decoding the list of %s: %w", resource, err)
		}
		for _, item := range page.Items {
			if err := visit(item); err != nil {
				return fmt.Errorf("decoding the list of %s: %w", resource, err)
			}
		}
		if page.Continue == "" {
			return nil
		}
		params["continue"] = page.Continue
	}
}

// updatesStatus reports whether a rule concerns updates of the status subresource.
// "*" is every resource, but no subresource.
func updatesStatus(rule admissionv1.RuleWithOperations, resource schema.GroupResource) bool {
	update := slices.Contains(rule.Operations, admissionv1.Update) || slices.Contains(rule.Operations, admissionv1.OperationAll)
	group := slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.APIGroups, resource.Group)
	return update && group && slices.ContainsFunc(rule.Resources, func(name string) bool {
		name, subresource, _ := strings.Cut(name, "/")
		return (name == "*" || name == resource.Resource) && (subresource == "*" || subresource == "status")
	})
}

// writes reports whether a rule concerns requests that persist an object of the
// resource: creating and updating it, and deleting it, which only marks it as
// long as it has finalizers.
func writes(rule admissionv1.RuleWithOperations, resource schema.GroupResource) bool {
	operation := slices.ContainsFunc(rule.Operations, func(o admissionv1.OperationType) bool {
		switch o {
		case admissionv1.OperationAll, admissionv1.Create, admissionv1.Update, admissionv1.Delete:
			return true
		case admissionv1.Connect:
		}
		return false
	})
	group := slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.APIGroups, resource.Group)
	return operation && group && slices.ContainsFunc(rule.Resources, func(name string) bool {
		name, _, _ = strings.Cut(name, "/")
		return name == "*" || name == resource.Resource
	})
}

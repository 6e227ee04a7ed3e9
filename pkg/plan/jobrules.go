package plan

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// JobRules returns the permissions that an account needs that does nothing but
// run a plan's command: those of the steps, and those to look at what the plan
// depends on, without which it would say that it does not know.
func JobRules(p v1alpha1.Plan) []Rule {
	rules := slices.Clone(Rules(p))
	for _, rule := range []Rule{
		// An in-tree migration that is not finished must not be overlooked.
		{Verb: "list", Group: svmGroup, Resource: "storageversionmigrations"},
		// A webhook may hold a write, for which the verify step waits.
		{Verb: "list", Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
		{Verb: "list", Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"},
	} {
		if !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// WebhookService returns the Service that the conversion webhook of a CRD is
// reached through, which a plan looks at, or nil.
func WebhookService(c *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.ServiceReference {
	conversion := c.Spec.Conversion
	if conversion == nil || conversion.Strategy != apiextensionsv1.WebhookConverter ||
		conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil {
		return nil
	}
	return conversion.Webhook.ClientConfig.Service
}

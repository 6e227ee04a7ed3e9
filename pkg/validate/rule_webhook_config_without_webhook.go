package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func webhookConfigWithoutWebhook() Rule {
	return Rule{
		ID:       "webhook-config-without-webhook",
		Severity: v1alpha1.SeverityError,
		Summary:  "a conversion webhook is configured, and the strategy is not Webhook",
		Why: "The API server refuses it, since it would not call the webhook: with strategy None it changes nothing but apiVersion, and " +
			"drops the fields that a version lacks.",
		Fix:     "Set strategy: Webhook if the webhook is to convert the objects; otherwise remove spec.conversion.webhook.",
		Fixable: true,
		Claims: func(r Refusal) bool {
			return under(r.Path, webhookPath) && r.Detail == "should not be set when strategy is not set to Webhook"
		},
		// Upstream has an error for each field of the stanza, and it is one mistake.
		Explain: func(s *Subject, _ Refusal) Problem {
			return Problem{
				Path:    webhookPath,
				Message: "a conversion webhook is configured, but the strategy is " + string(s.CRD.ConversionStrategy()),
				Edits:   []Edit{{Path: webhookPath, Remove: true}},
			}
		},
	}
}

package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func conversionWithoutWebhookConfig() Rule {
	return Rule{
		ID:       "conversion-without-webhook-config",
		Severity: v1alpha1.SeverityError,
		Summary:  "the conversion strategy is Webhook, and there is no webhook",
		Why:      "The API server has to know which webhook converts the objects, and refuses the CRD otherwise.",
		Fix: "Set spec.conversion.webhook.clientConfig and conversionReviewVersions, or the strategy None if the versions differ in nothing " +
			"but their names.",
		Claims: func(r Refusal) bool {
			return r.Path == clientConfigPath && r.Detail == "required when strategy is set to Webhook"
		},
		Explain: func(*Subject, Refusal) Problem {
			return Problem{Message: "the conversion strategy is Webhook, but webhook.clientConfig is missing"}
		},
	}
}

package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func webhookForOneVersion() Rule {
	return Rule{
		ID:       "webhook-for-one-version",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "the conversion strategy is Webhook, and there is only one version",
		Why: "There is nothing to convert, yet the API server builds a client for the webhook whenever it serves the resource: with a caBundle that " +
			"cannot be read, the resource is not served at all, and what lists every resource fails with it.",
		Fix: "Set strategy: None and remove spec.conversion.webhook, until there is a second version to convert.",
		Check: func(s *Subject) []Problem {
			if !s.Webhook() || len(s.CRD.Spec.Versions) != 1 || len(s.BogusStored()) > 0 {
				return nil
			}
			return []Problem{{
				Path:    "spec.conversion.strategy",
				Message: "the conversion strategy is Webhook, but " + s.CRD.Spec.Versions[0].Name + " is the only version",
			}}
		},
	}
}

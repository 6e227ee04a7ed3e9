package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func webhookClientConfig() Rule {
	return Rule{
		ID:       "webhook-client-config",
		Severity: v1alpha1.SeverityError,
		Summary:  "the conversion webhook has both a url and a service, or neither",
		Why:      "The API server calls one place, and refuses to choose.",
		Fix: "Keep service for a webhook that runs in the cluster, and url for one outside. A tool that merges manifests can leave both behind; " +
			"set the other one to null there.",
		Claims: func(r Refusal) bool {
			return r.Path == clientConfigPath && r.Detail == "exactly one of url or service is required"
		},
		Explain: func(s *Subject, _ Refusal) Problem {
			config := s.clientConfig()
			if config != nil && config.URL != nil {
				return Problem{Message: "the conversion webhook has both a url and a service"}
			}
			return Problem{Message: "the conversion webhook has neither a url nor a service"}
		},
	}
}

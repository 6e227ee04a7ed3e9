package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func webhookService() Rule {
	const path = clientConfigPath + ".service"
	return Rule{
		ID:       "webhook-service",
		Severity: v1alpha1.SeverityError,
		Summary:  "the service of the conversion webhook is one that the API server refuses",
		Why: "The API server needs the name and the namespace of the service, a port from 1 to 65535 (443 if none is given), and a path that " +
			"begins with / and whose parts are lower-case letters, digits, - and dots.",
		Fix:    "Correct the field that the path names.",
		Claims: func(r Refusal) bool { return under(r.Path, path) },
		Explain: func(_ *Subject, r Refusal) Problem {
			switch r.Path {
			// Upstream passes name and namespace the wrong way round
			// (validateCustomResourceConversion): each error is at the other's field.
			case path + ".name":
				return Problem{Path: path + ".namespace", Message: "the service of the conversion webhook has no namespace"}
			case path + ".namespace":
				return Problem{Path: path + ".name", Message: "the service of the conversion webhook has no name"}
			default:
				return Problem{Message: "the service of the conversion webhook: " + r.Detail}
			}
		},
	}
}

package validate

import (
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func webhookURL() Rule {
	return Rule{
		ID:       "webhook-url",
		Severity: v1alpha1.SeverityError,
		Summary:  "the URL of the conversion webhook is one that the API server refuses",
		Why:      "The API server sends whole objects to the webhook. It takes https://host[:port][/path] and nothing else.",
		Fix:      "Write the URL as https://host[:port][/path], without user, query and fragment.",
		Claims:   func(r Refusal) bool { return r.Path == clientConfigPath+".url" },
		Explain: func(_ *Subject, r Refusal) Problem {
			// Not upstream's own words: they show the password of a user in the URL.
			for _, problem := range []struct{ words, message string }{
				{"must be a valid URL", "the URL of the conversion webhook cannot be parsed"},
				{"only allowed URL scheme", "the URL of the conversion webhook is not https"},
				{"host must be specified", "the URL of the conversion webhook has no host"},
				{"user information", "the URL of the conversion webhook has a user"},
				{"fragments", "the URL of the conversion webhook has a fragment"},
				{"query parameters", "the URL of the conversion webhook has a query"},
			} {
				if strings.Contains(r.Detail, problem.words) {
					return Problem{Message: problem.message}
				}
			}
			return Problem{Message: "the URL of the conversion webhook: " + r.Detail}
		},
	}
}

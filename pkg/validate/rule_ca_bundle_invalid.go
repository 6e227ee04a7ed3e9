package validate

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func caBundleInvalid() Rule {
	const path = clientConfigPath + ".caBundle"
	return Rule{
		ID:       "ca-bundle-invalid",
		Severity: v1alpha1.SeverityError,
		Summary:  "the caBundle of the conversion webhook cannot be read",
		Why: "The API server does not look at the caBundle of a new CRD, and then does not serve the resource, because it cannot build a client " +
			"for the webhook. On an existing CRD it refuses such a caBundle, unless the old one was as bad.",
		Fix:    "Set caBundle to PEM certificates (-----BEGIN CERTIFICATE-----) encoded in base64 once, or remove it where a tool injects it.",
		Claims: func(r Refusal) bool { return r.Path == path },
		// The same words as those of the check: a refused one is one finding.
		Explain: func(s *Subject, _ Refusal) Problem {
			return Problem{Message: "the caBundle of the conversion webhook has no certificate that can be read", Fix: bundleFix(s)}
		},
		Check: func(s *Subject) []Problem {
			config := s.clientConfig()
			if config == nil || len(config.CABundle) == 0 || s.refusesAt(path) {
				return nil
			}
			if len(caBundle(config)) == 0 {
				if s.Live() {
					return nil // It works as if there were none: ca-bundle-missing.
				}
				// Generators wrote "Cg==", a line feed, when the field was required.
				return []Problem{{
					Severity: v1alpha1.SeverityWarning,
					Path:     path,
					Message:  "the caBundle of the conversion webhook is white space: it is refused when the CRD already exists with a good one",
					Fix:      "Remove caBundle; it has long been optional.",
				}}
			}
			if errs := webhook.ValidateCABundle(field.NewPath(path), config.CABundle); len(errs) == 0 {
				return nil
			}
			return []Problem{{
				Path: path, Message: "the caBundle of the conversion webhook has no certificate that can be read", Fix: bundleFix(s),
			}}
		},
	}
}

// bundleFix says what to do about a caBundle that an injector should replace.
func bundleFix(s *Subject) string {
	if s.injector() == "" || s.Live() {
		return ""
	}
	return "Remove caBundle: " + s.injector() + " has it injected."
}

// refusesAt reports whether the server refuses the CRD because of a field.
func (s *Subject) refusesAt(path string) bool {
	for _, refusal := range s.Refusals() {
		if refusal.Path == path {
			return true
		}
	}
	return false
}

package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func caBundleMismatch() Rule {
	return Rule{
		ID:       "ca-bundle-mismatch",
		Severity: v1alpha1.SeverityError,
		Summary:  "the caBundle does not accept the certificate that the conversion webhook presents",
		Why:      "The API server ends the connection before it sends an object. " + clusterWide,
		Fix: "Set caBundle to the CA that signed the webhook's certificate, or restart the webhook if it still presents an old one. The certificate " +
			"must be for the name that the API server calls, as webhook.system.svc.",
		LiveOnly: true,
		Check: func(s *Subject) []Problem {
			converter := s.converter()
			if converter == nil || converter.TLSError == "" {
				return nil
			}
			bundle := []byte(nil)
			if config := s.clientConfig(); config != nil {
				bundle = caBundle(config)
			}
			found, readable := s.validity()
			if len(bundle) > 0 && !(readable && found.valid) {
				return nil // The rules ca-bundle-invalid and ca-bundle-expired have the cause.
			}
			problem := Problem{
				Path:    clientConfigPath + ".caBundle",
				Message: "the caBundle does not accept the certificate of the conversion webhook: " + oneLine(converter.TLSError),
			}
			if len(bundle) == 0 {
				problem.Message = "there is no caBundle, and the certificate of the conversion webhook is not accepted without one: " +
					oneLine(converter.TLSError)
			}
			return []Problem{problem}
		},
	}
}

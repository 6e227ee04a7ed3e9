package validate

import (
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func caBundleExpiresSoon() Rule {
	return Rule{
		ID:       "ca-bundle-expires-soon",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "the caBundle of the conversion webhook expires within 30 days",
		Why:      "Once the last certificate in it has expired, the API server trusts no certificate that the webhook could present. " + clusterWide,
		Fix:      "Renew the CA, and set caBundle to the old and the new one until the webhook presents a certificate of the new one.",
		Check: func(s *Subject) []Problem {
			const days = 30
			found, ok := s.validity()
			if !ok || !found.valid || found.until.After(s.Now.Add(days*24*time.Hour)) {
				return nil
			}
			problem := Problem{
				Path:    clientConfigPath + ".caBundle",
				Message: "the caBundle of the conversion webhook expires on " + day(found.until),
			}
			if s.injector() != "" {
				problem.Fix = "Look at whether the certificate is renewed in time: " + s.injector() + " has it injected."
			}
			return []Problem{problem}
		},
	}
}

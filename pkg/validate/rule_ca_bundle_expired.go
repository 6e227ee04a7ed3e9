package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func caBundleExpired() Rule {
	return Rule{
		ID:       "ca-bundle-expired",
		Severity: v1alpha1.SeverityError,
		Summary:  "no certificate in the caBundle of the conversion webhook is valid any more, or yet",
		Why:      "The API server trusts no certificate that the webhook could present. " + clusterWide,
		Fix:      "Renew the CA and the webhook's certificate, and set caBundle to the new CA; while both are in use, to the old and the new one.",
		Check: func(s *Subject) []Problem {
			found, ok := s.validity()
			if !ok || found.valid {
				return nil
			}
			message := "the caBundle of the conversion webhook expired on " + day(found.until)
			if !found.from.IsZero() {
				message = "the caBundle of the conversion webhook is not valid before " + day(found.from)
			}
			return []Problem{{Path: clientConfigPath + ".caBundle", Message: message}}
		},
	}
}

package validate

import (
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func caInjectorDeadlock() Rule {
	return Rule{
		ID:       "ca-injector-deadlock",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "the CA injector has to read objects of the kind whose conversion waits for its CA",
		Why: "The injector lists Certificates when it starts. Where they are stored at another version than the one that it asks for, they have to be " +
			"converted, which needs the caBundle that it has yet to inject: after the CRD was installed anew, neither side moves.",
		Fix: "Keep the version that the injector reads as the storage version, and migrate to it, or set caBundle when the CRD is installed.",
		Check: func(s *Subject) []Problem {
			config := s.clientConfig()
			// cert-manager's injector is the one that reads a kind of its own.
			if config == nil || len(caBundle(config)) > 0 || !strings.HasPrefix(s.injector(), "cert-manager.io/") ||
				s.CRD.Spec.Names.Kind != "Certificate" || s.Storage == "" || s.KubectlDefault == "" || s.Storage == s.KubectlDefault {
				return nil
			}
			return []Problem{{
				Path: clientConfigPath + ".caBundle",
				Message: "the CA injector needs to read Certificates to inject this caBundle, and needs the caBundle to read them: they are stored at " +
					s.Storage + " and preferred at " + s.KubectlDefault,
			}}
		},
	}
}

package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func caBundleMissing() Rule {
	return Rule{
		ID:       "ca-bundle-missing",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "the service of the conversion webhook has no caBundle",
		Why: "Without one the API server trusts the roots of its own machine, and those sign no certificate for a name like webhook.system.svc: " +
			"conversion fails. " + clusterWide,
		Fix: "Set caBundle to the CA of the webhook's certificate, or have a tool inject it, as with the annotation cert-manager.io/inject-ca-from.",
		Check: func(s *Subject) []Problem {
			config := s.clientConfig()
			if config == nil || config.Service == nil || len(config.CABundle) > 0 && !s.Live() || len(caBundle(config)) > 0 {
				return nil
			}
			problem := Problem{Path: clientConfigPath + ".caBundle", Message: "the conversion webhook " + s.service() + " has no caBundle"}
			converter, injector := s.converter(), s.injector()
			switch {
			case s.Live() && converter != nil && converter.TLSError != "":
				return nil // The rule ca-bundle-mismatch has the consequence.
			case s.Live() && injector != "":
				problem.Message += ", although " + injector + " asks for one"
				problem.Fix = "Look at why the injector does not act, and whether a GitOps tool removes what it injects: have that tool ignore caBundle."
			case injector != "":
				return nil
			case !s.Live():
				// Many operators write it at run time, and say so nowhere.
				problem.Severity = v1alpha1.SeverityInfo
			}
			return []Problem{problem}
		},
	}
}

package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func conversionNamespaceTerminating() Rule {
	return Rule{
		ID:       "conversion-namespace-terminating",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "the namespace of the conversion webhook is being deleted",
		Why: "To empty a namespace its objects have to be listed, and to list those of this kind the webhook has to convert them: once its pods are gone, " +
			"no namespace with such an object can be deleted, this one included. " + clusterWide,
		Fix: "Restore the webhook, here or in another namespace, until the objects are migrated to the storage version; with all of them stored there " +
			"the strategy None needs no webhook.",
		LiveOnly: true,
		Check: func(s *Subject) []Problem {
			found := s.converter()
			if found == nil || found.Error != "" || !found.NamespaceTerminating || s.service() == "" {
				return nil
			}
			return []Problem{{
				Path:    clientConfigPath + ".service.namespace",
				Message: "namespace " + s.clientConfig().Service.Namespace + " of the conversion webhook is being deleted",
			}}
		},
	}
}

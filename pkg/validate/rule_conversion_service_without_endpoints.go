package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func conversionServiceWithoutEndpoints() Rule {
	return Rule{
		ID:       "conversion-service-without-endpoints",
		Severity: v1alpha1.SeverityError,
		Summary:  "no pod is ready behind the service of the conversion webhook",
		Why:      "Nothing answers the API server. " + clusterWide,
		Fix: "Start the webhook. If it is not to come back: start it once more, migrate all objects to the storage version " +
			"(kubectl crdver migrate), and only then set the strategy to None.",
		LiveOnly: true,
		Check: func(s *Subject) []Problem {
			found := s.converter()
			if found == nil || found.Error != "" || found.NamespaceMissing || found.ServiceMissing || found.PortMissing ||
				found.Endpoints == nil || *found.Endpoints > 0 || s.service() == "" {
				return nil
			}
			problem := Problem{
				Path:    clientConfigPath + ".service",
				Message: "no pod is ready behind the service " + s.service() + " of the conversion webhook",
				Fix: "Start the webhook. If it is not to come back: start it once more, run " + s.Command("migrate", "") +
					", and only then set the strategy to None.",
			}
			return []Problem{problem}
		},
	}
}

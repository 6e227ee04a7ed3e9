package validate

import (
	"strconv"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func conversionServiceMissing() Rule {
	return Rule{
		ID:       "conversion-service-missing",
		Severity: v1alpha1.SeverityError,
		Summary:  "the service of the conversion webhook, or its port, does not exist",
		Why:      "The API server has nothing to call. " + clusterWide,
		Fix: "Install the webhook, or correct the service in the CRD. Do not just set the strategy to None: first all objects must be stored at the " +
			"storage version, and a migration needs the webhook.",
		LiveOnly: true,
		Check:    checkConversionServiceMissing,
	}
}

func checkConversionServiceMissing(s *Subject) []Problem {
	found := s.converter()
	service := s.service()
	if found == nil || found.Error != "" || service == "" {
		return nil
	}
	reference := s.clientConfig().Service
	const path = clientConfigPath + ".service"
	switch {
	case found.NamespaceMissing || found.ServiceMissing:
		problem := Problem{Path: path, Message: "the service " + service + " of the conversion webhook does not exist"}
		if found.NamespaceMissing {
			problem.Path = path + ".namespace"
			problem.Message += ", nor does its namespace"
		}
		if len(found.ElsewhereIn) > 0 {
			problem.Path = path + ".namespace"
			problem.Message += "; a service of that name exists in namespace " + listed(found.ElsewhereIn)
			problem.Fix = "If that is the webhook, set spec.conversion.webhook.clientConfig.service.namespace to its namespace, in the manifest as well."
		}
		return []Problem{problem}
	case found.PortMissing:
		port := int32(443) // The API server's default.
		if reference.Port != nil {
			port = *reference.Port
		}
		problem := Problem{
			Path:    path + ".port",
			Message: "the service " + service + " of the conversion webhook has no port " + portText(port),
		}
		if len(found.Ports) > 0 {
			ports := make([]string, 0, len(found.Ports))
			for _, one := range found.Ports {
				ports = append(ports, portText(one))
			}
			problem.Message += "; it has " + listed(ports)
			problem.Fix = "Set spec.conversion.webhook.clientConfig.service.port to a port of the service, in the manifest as well."
		}
		return []Problem{problem}
	default:
		return nil
	}
}

func portText(port int32) string { return strconv.Itoa(int(port)) }

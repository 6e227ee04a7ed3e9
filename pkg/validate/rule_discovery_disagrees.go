package validate

import "github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"

func discoveryDisagrees() Rule {
	return Rule{
		ID:       "discovery-disagrees",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "the API server's discovery does not list the versions as the CRD has them",
		Why: "Clients follow discovery. An APIService that somebody made for a version keeps its own versionPriority, so that /apis/GROUP and aggregated " +
			"discovery differ and clients use different versions; one with a service takes the version away from the CRD.",
		Fix:      "Find out who made the APIService and whether it is needed: kubectl get apiservices. The API server makes its own when it is deleted.",
		LiveOnly: true,
		Check:    checkDiscoveryDisagrees,
	}
}

func checkDiscoveryDisagrees(s *Subject) []Problem {
	d := s.Observations.Discovery
	if d == nil || !s.CRD.Established() || s.CRD.DeletionTimestamp != nil {
		return nil
	}
	if d.Error != "" {
		return []Problem{{
			Severity: v1alpha1.SeverityInfo,
			Path:     "spec.versions",
			Message:  "whether discovery agrees with the CRD is unknown: " + d.Error,
			Fix:      "Try again: kubectl get --raw /apis/" + s.CRD.Spec.Group,
		}}
	}
	var problems []Problem
	difference := s.DiscoveryProblem()
	for _, service := range d.APIServices {
		i := s.CRD.VersionIndex(service.Version)
		if i < 0 {
			continue // A version of another kind in the group.
		}
		problem := Problem{
			Version: service.Version,
			Path:    "spec.versions[" + itoa(i) + "]",
			Message: s.APIServiceProblem(service),
			Fix:     "See who made it: kubectl get apiservice " + service.Name + " -o yaml",
		}
		if difference != "" {
			problem.Message += "; " + difference
		}
		problems = append(problems, problem)
	}
	if len(problems) == 0 && difference != "" {
		problems = append(problems, Problem{
			Version: s.KubectlDefault,
			Path:    "spec.versions",
			Message: difference,
			Fix:     "Look again in a moment, because discovery follows a change of the CRD. If it stays: kubectl get --raw /apis/" + s.CRD.Spec.Group,
		})
	}
	return problems
}

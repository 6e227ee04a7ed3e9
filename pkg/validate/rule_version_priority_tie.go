package validate

import (
	"fmt"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/apiversion"
)

func versionPriorityTie() Rule {
	return Rule{
		ID:       "version-priority-tie",
		Severity: v1alpha1.SeverityError,
		Summary:  "two served versions have the same priority",
		Why: "Names such as v1 and v01 are the same to the API server's order, which then is undefined: the group's document and the aggregated " +
			"discovery document were seen to list them in different orders, so two clients of one cluster use different versions by default.",
		Fix:   "Retire one of the two versions; if it is a new one, give it another number.",
		Check: checkVersionPriorityTie,
	}
}

func checkVersionPriorityTie(s *Subject) []Problem {
	var problems []Problem
	index := make(map[string]int, len(s.Versions))
	for _, e := range s.entries() {
		index[e.Name] = e.index
	}
	// Versions that tie are next to each other.
	for i := 1; i < len(s.Versions); i++ {
		a, b := s.Versions[i-1], s.Versions[i]
		if !apiversion.Tie(a.Name, b.Name) {
			continue
		}
		odd := b
		if withoutZeros(b.Name) == b.Name {
			odd = a
		}
		problem := Problem{
			Version: odd.Name,
			Path:    "spec.versions[" + itoa(index[odd.Name]) + "].name",
			Message: fmt.Sprintf("%s and %s have the same priority: the kubectl default is undefined and differs between discovery documents", a.Name, b.Name),
		}
		if !a.Served || !b.Served {
			// Discovery lists served versions only.
			problem.Severity = v1alpha1.SeverityWarning
			problem.Message = fmt.Sprintf("%s and %s have the same priority: if both were served, the kubectl default would be undefined", a.Name, b.Name)
		}
		if s.Live() && !odd.Storage {
			problem.Fix = s.Command("retire", odd.Name)
		}
		problems = append(problems, problem)
	}
	return problems
}

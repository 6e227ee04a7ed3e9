package validate

import "github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"

func versionNamesNotUnique() Rule {
	return Rule{
		ID:       "version-names-not-unique",
		Severity: v1alpha1.SeverityError,
		Summary:  "two versions have the same name",
		Why:      "The API server refuses the CRD: it could not tell which of the two a request is for. It mostly comes of merging two branches.",
		Fix:      "Keep one of the entries.",
		Claims: func(r Refusal) bool {
			return r.Path == "spec.versions" && r.Detail == "must contain unique version names"
		},
		Explain: func(s *Subject, _ Refusal) Problem {
			var twice []string
			times := map[string]int{}
			problem := Problem{}
			for _, e := range s.entries() {
				times[e.Name]++
				if times[e.Name] != 2 {
					continue
				}
				if len(twice) == 0 {
					problem.Path, problem.Version = e.path("name"), e.Name
				}
				twice = append(twice, e.Name)
			}
			problem.Message = "version names occur more than once: " + listed(twice)
			return problem
		},
	}
}

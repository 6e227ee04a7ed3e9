package validate

import "github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"

func storageVersionNotServed() Rule {
	return Rule{
		ID:       "storage-version-not-served",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "the storage version is not served",
		Why: "Objects are persisted at a version that no client can read or write: what is stored cannot be looked at as it is, " +
			"and every request is converted. It is mostly a version that was taken out of service before another became the storage version.",
		Fix:   "Serve the storage version, or set storage: true on a served one.",
		Check: checkStorageVersionNotServed,
	}
}

func checkStorageVersionNotServed(s *Subject) []Problem {
	served := s.Served()
	e, one := s.storageEntry()
	if !one || e.Served || len(served) == 0 {
		return nil // Without any, no-served-version says so.
	}
	problem := Problem{
		Version: e.Name,
		Path:    e.path("served"),
		Message: "storage version " + e.Name + " is not served, while " + listed(served) + " is",
	}
	if len(served) > 1 {
		problem.Message = "storage version " + e.Name + " is not served, while " + listed(served) + " are"
	}
	if s.Live() {
		problem.Fix = s.Command("restore", e.Name)
		if best := s.Replacement(e.Name); best != "" {
			problem.Fix += ", or make a served version the storage version: " + s.Command("promote", best)
		}
	}
	return []Problem{problem}
}

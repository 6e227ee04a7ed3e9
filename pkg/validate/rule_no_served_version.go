package validate

import "github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"

func noServedVersion() Rule {
	return Rule{
		ID:       "no-served-version",
		Severity: v1alpha1.SeverityError,
		Summary:  "no version is served",
		Why: "Without a served version no object can be read, written or deleted, not even by the garbage collector or a " +
			"storage version migration. The API server accepts such a CRD, also when served is merely left out.",
		Fix:   "Set served: true on at least one version, best on the storage version.",
		Check: checkNoServedVersion,
	}
}

func checkNoServedVersion(s *Subject) []Problem {
	entries := s.entries()
	if len(entries) == 0 {
		return nil // Told by single-storage-version.
	}
	for _, e := range entries {
		if e.Served {
			return nil
		}
	}
	problem := Problem{
		Path:    "spec.versions",
		Message: "none of the versions " + listed(s.CRD.VersionNames()) + " is served: no object can be read or written",
	}
	if s.Live() && s.Storage != "" {
		problem.Fix = s.Command("restore", s.Storage)
	}
	return []Problem{problem}
}

package validate

import "github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"

func storageVersionDeprecated() Rule {
	return Rule{
		ID:       "storage-version-deprecated",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "the storage version is deprecated, and another served version is not",
		Why: "Every new object is still persisted at the version that is to go away, so the work of migrating grows until " +
			"the storage version changes. The version cannot be retired before that.",
		Fix:   "Set storage: true on a version that is not deprecated, then migrate the stored objects with kubectl crdver migrate.",
		Check: checkStorageVersionDeprecated,
	}
}

func checkStorageVersionDeprecated(s *Subject) []Problem {
	e, one := s.storageEntry()
	best := s.Replacement("")
	if !one || !e.Deprecated || best == "" {
		return nil // With no version to go to, all-served-versions-deprecated says so.
	}
	problem := Problem{
		Version: e.Name,
		Path:    e.path("storage"),
		Message: "storage version " + e.Name + " is deprecated, while " + best + " is served and not deprecated",
	}
	if s.Live() {
		problem.Fix = s.Command("promote", best)
	}
	return []Problem{problem}
}

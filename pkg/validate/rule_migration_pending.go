package validate

import "github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"

func migrationPending() Rule {
	return Rule{
		ID:       "migration-pending",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "objects may still be stored at another version than the storage version",
		Why: "The list status.storedVersions never shrinks by itself. As long as it lists a version, the API server refuses to remove that version " +
			"from spec.versions, and a release that drops it fails to install.",
		Fix:      "Rewrite the stored objects with kubectl crdver migrate, which trims the list once it has proof.",
		LiveOnly: true,
		Check:    checkMigrationPending,
	}
}

func checkMigrationPending(s *Subject) []Problem {
	if s.Storage == "" {
		return nil
	}
	var pending []string
	for _, v := range s.Versions {
		if v.Stored && v.Name != s.Storage {
			pending = append(pending, v.Name)
		}
	}
	if len(pending) == 0 {
		return nil
	}
	problem := Problem{
		Path:    "status.storedVersions",
		Message: "objects may still be stored at " + listed(pending) + "; the storage version is " + s.Storage,
		Fix:     s.Command("migrate", ""),
	}
	if s.Endpoint() == "" {
		problem.Fix = s.Command("restore", s.Storage) + ", because no version is served; then " + problem.Fix
	}
	if len(pending) == 1 {
		problem.Version = pending[0]
	}
	if objects := s.Observations.Objects; objects != nil && *objects == 0 {
		problem.Message = "status.storedVersions still lists " + listed(pending) + " beside the storage version " + s.Storage +
			", although there is no object"
	}
	return []Problem{problem}
}

package validate

import (
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func storedVersionsUntrusted() Rule {
	return Rule{
		ID:       "stored-versions-untrusted",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "status.storedVersions cannot be trusted",
		Why: "The list can claim less than the truth: an in-tree storage version migration trims it even when it failed, and anybody with the " +
			"right may patch it. Removing a version that objects are still stored at makes them unreadable.",
		Fix:      "Run kubectl crdver migrate, which proves what every object is stored at, before removing any version.",
		LiveOnly: true,
		Check:    checkStoredVersionsUntrusted,
	}
}

func checkStoredVersionsUntrusted(s *Subject) []Problem {
	if s.Trust.Trusted || len(s.Trust.Reasons) == 0 {
		return nil
	}
	if len(s.BogusStored()) > 0 && len(s.Trust.Reasons) == 1 {
		return nil // The one reason is told by stored-version-missing.
	}
	if n := len(s.StoredUnlisted()); n > 0 && n == len(s.Trust.Reasons) {
		return nil // The reasons are told by stored-version-unclaimed.
	}
	problem := Problem{
		Path:    "status.storedVersions",
		Message: "status.storedVersions cannot be trusted: " + strings.Join(s.Trust.Reasons, "; "),
		Fix:     s.Command("migrate", ""),
	}
	if s.Observations.MigrationsError != "" && len(s.Trust.Reasons) == 1 && strings.HasSuffix(s.Trust.Reasons[0], s.Observations.MigrationsError) {
		// Not known is not the same as wrong.
		problem.Severity = v1alpha1.SeverityInfo
		problem.Message = "whether status.storedVersions can be trusted is unknown: " + s.Trust.Reasons[0]
		problem.Fix = "Try again with an account that may list storageversionmigrations.storagemigration.k8s.io."
	}
	return []Problem{problem}
}

package validate

import (
	"fmt"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

func storedVersionUnclaimed() Rule {
	return Rule{
		ID:       "stored-version-unclaimed",
		Severity: v1alpha1.SeverityError,
		Summary:  "etcd holds objects at a version that status.storedVersions or spec.versions lacks",
		Why: "The API server lets anybody remove a version from spec.versions that status.storedVersions does not list. Objects that are " +
			"persisted at it can then not be read, listed or deleted; those of a version that is gone already cannot be now. The rule looks at " +
			"etcd itself, with --etcd-snapshot or --etcd-endpoints.",
		Fix:   "Rewrite the objects with kubectl crdver migrate --force before any version is removed; add a version that is gone again, not served, first.",
		Check: checkStoredVersionUnclaimed,
	}
}

func checkStoredVersionUnclaimed(s *Subject) []Problem {
	stored := s.Observations.Stored
	switch {
	case stored == nil:
		return nil
	case stored.Error != "":
		// Not known is not the same as right.
		return []Problem{{
			Severity: v1alpha1.SeverityWarning, Path: "status.storedVersions",
			Message: "what " + stored.Source + " holds of it is unknown: " + stored.Error,
			Fix:     "Read the etcd of this cluster.",
		}}
	}
	var problems []Problem
	for _, count := range s.StoredUnreadable() {
		problems = append(problems, Problem{
			Path:    "spec.versions",
			Message: stored.Holds(count) + ", which spec.versions does not have: what is stored at it cannot be read",
			Fix:     "Add " + count.Version + " again, not served: " + s.Command("restore", count.Version) + " -f MANIFEST, then " + s.Command("migrate", ""),
		})
	}
	if s.Live() {
		for _, count := range s.StoredUnlisted() {
			problems = append(problems, Problem{
				Version: count.Version, Path: "status.storedVersions",
				Message: stored.Holds(count) + ", which status.storedVersions does not list",
				Fix:     s.Command("migrate", "") + " --force",
			})
		}
	}
	if unknown := s.StoredUnknown(); unknown > 0 {
		problems = append(problems, Problem{
			Severity: v1alpha1.SeverityInfo, Path: "status.storedVersions",
			Message: fmt.Sprintf("%s holds %s whose version is unknown: encrypted at rest, or not to be decoded", stored.Source, english.Plural(unknown, "object")),
			Fix:     "To see which: kubectl crdver stored " + s.CRD.Name,
		})
	}
	return problems
}

package validate

import (
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func singleStorageVersion() Rule {
	return Rule{
		ID:       "single-storage-version",
		Severity: v1alpha1.SeverityError,
		Summary:  "not exactly one version is the storage version",
		Why: "Objects are persisted at one version, the one with storage: true. The API server refuses a CRD " +
			"with none and a CRD with several; generators write such a CRD without complaint.",
		Fix:     "Set storage: true on the version that objects are to be persisted at, and storage: false on all others.",
		Fixable: true,
		Claims: func(r Refusal) bool {
			switch {
			case r.Path == "spec.versions":
				return r.Detail == "must have exactly one version marked as storage version"
			case strings.HasPrefix(r.Path, "status.storedVersions"):
				// What follows from none or two: the server remembers only the first
				// as stored (PrepareForCreate).
				return strings.HasPrefix(r.Detail, "must have the storage version") || r.Detail == "must have at least one stored version"
			}
			return false
		},
		Explain: explainStorageVersions,
	}
}

// explainStorageVersions gives the same problem for each of the refusals, so
// that it is found once.
func explainStorageVersions(s *Subject, _ Refusal) Problem {
	problem := Problem{Path: "spec.versions"}
	entries := s.entries()
	storage := s.CRD.StorageVersions()
	switch {
	case len(entries) == 0:
		problem.Message = "the CRD has no version, so none is the storage version"
		problem.Fix = "Add a version with served: true and storage: true."
	case len(storage) == 0:
		problem.Message = "none of the versions " + listed(s.CRD.VersionNames()) + " has storage: true; exactly one must"
		if len(entries) == 1 {
			problem.Version = entries[0].Name
			problem.Message = "the only version " + entries[0].Name + " does not have storage: true"
			problem.Fix = "Set storage: true on " + entries[0].Name + "."
			problem.Edits = []Edit{{Path: entries[0].path("storage"), Set: true}}
		}
	default:
		problem.Message = itoa(len(storage)) + " versions have storage: true (" + listed(storage) + "); exactly one must"
		problem.Fix = "Keep storage: true on one of them. On a cluster where the CRD exists, keep the present storage version " +
			"and change it with kubectl crdver promote."
	}
	return problem
}

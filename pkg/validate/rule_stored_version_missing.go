package validate

import (
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

func storedVersionMissing() Rule {
	return Rule{
		ID:       "stored-version-missing",
		Severity: v1alpha1.SeverityError,
		Summary:  "a stored version is not in spec.versions",
		Why: "The API server refuses every change of the spec as long as status.storedVersions lists a version that spec.versions does " +
			"not have. If objects really are persisted at it they are intact, but cannot be read, listed or deleted until the version is there again.",
		Fix: "Run kubectl crdver rescue: it adds the version again, not served, rewrites the objects, proves it, trims the list, " +
			"and removes the version.",
		LiveOnly: true,
		Claims: func(r Refusal) bool {
			return strings.HasPrefix(r.Path, "status.storedVersions[") && strings.HasPrefix(r.Detail, "missing from spec.versions")
		},
		Explain: explainStoredVersionMissing,
		Check:   checkLostVersion,
	}
}

func explainStoredVersionMissing(s *Subject, r Refusal) Problem {
	version, ok := r.BadValue.(string)
	if !ok {
		return Problem{}
	}
	if version == s.Observations.LostVersion {
		return lostVersion(s)
	}
	return Problem{
		Version: version,
		Message: "status.storedVersions lists " + version + ", which spec.versions does not have: " +
			"the API server refuses every change of the spec",
		Fix: "Rewrite and verify every object, then trim " + version + ": " + s.Command("migrate", "") +
			". If objects cannot be read: " + s.Command("rescue", ""),
	}
}

// checkLostVersion finds what no list says: a version that objects were met at
// when they could not be read (facts 1, 14 and 15).
func checkLostVersion(s *Subject) []Problem {
	lost := s.Observations.LostVersion
	if lost == "" || s.CRD.VersionIndex(lost) >= 0 {
		return nil
	}
	for _, stored := range s.Stored {
		if stored == lost {
			return nil // A refusal, explained above.
		}
	}
	return []Problem{lostVersion(s)}
}

func lostVersion(s *Subject) Problem {
	lost := s.Observations.LostVersion
	return Problem{
		Version: lost,
		Path:    "spec.versions",
		Message: lifecycle.Lost(s.CRD, lost),
		Fix:     lifecycle.Rescue(s.CRD, lost),
	}
}

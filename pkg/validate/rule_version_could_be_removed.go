package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/apiversion"
)

func versionCouldBeRemoved() Rule {
	return Rule{
		ID:       "version-could-be-removed",
		Severity: v1alpha1.SeverityInfo,
		Summary:  "a version is neither served nor stored and could be removed",
		Why: "No client can use the version and, as far as is known, no object is persisted at it. Its schema is only weight in every copy of the CRD. " +
			"Once it is removed it cannot simply be served again, so it may be kept for a release.",
		Fix:      "Remove it with kubectl crdver retire, which first proves that no object is stored at it and cleans managedFields.",
		LiveOnly: true,
		Check:    each(checkVersionCouldBeRemoved),
	}
}

func checkVersionCouldBeRemoved(s *Subject, best string, e entry) *Problem {
	if e.Served || e.Storage || best == "" || !s.Trust.Trusted || !s.leaving(e) || s.storedAt(e.Name) || s.BrownedOut(e.Name) {
		return nil
	}
	return &Problem{
		Path:    e.path(""),
		Message: e.Name + " is neither served nor stored",
		Fix:     s.Command("retire", e.Name),
	}
}

// leaving reports whether a version is on its way out. One that is not served
// can as well be a new one, on its way in.
func (s *Subject) leaving(e entry) bool {
	conforming := apiversion.Parse(e.Name).Stability != apiversion.NonConforming
	return e.Deprecated || conforming && s.Storage != "" && apiversion.Compare(s.Storage, e.Name) > 0
}

// storedAt reports whether status.storedVersions lists a version.
func (s *Subject) storedAt(version string) bool {
	for _, stored := range s.Stored {
		if stored == version {
			return true
		}
	}
	return false
}

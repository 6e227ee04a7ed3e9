package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/apiversion"
)

func storageVersionNotPreferred() Rule {
	return Rule{
		ID:       "storage-version-not-preferred",
		Severity: v1alpha1.SeverityInfo,
		Summary:  "the storage version is not the highest-priority served version",
		Why: "Clients that name no version use the highest-priority served one, and each of their requests is converted to the storage " +
			"version; with the strategy None, fields that the storage version lacks are dropped. It is the right state for a release or two " +
			"while a new version is rolled out, so that going back stays possible.",
		Fix:   "Once no older release has to read the objects, set storage: true on the preferred version and migrate.",
		Check: checkStorageVersionNotPreferred,
	}
}

func checkStorageVersionNotPreferred(s *Subject) []Problem {
	e, one := s.storageEntry()
	preferred := s.KubectlDefault
	switch {
	case !one || !e.Served || e.Name == preferred:
		return nil
	case s.Replacement("") != preferred || e.Deprecated:
		return nil // The preferred or the storage version is deprecated: other rules say so.
	case apiversion.Parse(preferred).Stability == apiversion.NonConforming:
		return nil // Alphabetical order says nothing about which version is better.
	}
	problem := Problem{
		Version: e.Name,
		Path:    e.path("storage"),
		Message: "storage version " + e.Name + " is not the one that clients prefer, " + preferred,
	}
	if s.Live() {
		problem.Fix = s.Command("promote", preferred)
	}
	return []Problem{problem}
}

package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/apiversion"
)

func lowerPriorityVersionStored() Rule {
	return Rule{
		ID:       "lower-priority-version-stored",
		Severity: v1alpha1.SeverityInfo,
		Summary:  "the storage version has a lower priority than a version that objects were stored at",
		Why: "The storage version was moved back, as when a release is withdrawn. Migrating rewrites objects of the newer version at the " +
			"older one: with the strategy None, fields that the older schema lacks are dropped for good.",
		Fix: "Before migrating, look at what the rewrite would lose: kubectl crdver migrate CRD --dry-run=server rehearses it. " +
			"If the step back was not meant, promote the newer version again.",
		LiveOnly: true,
		Check:    checkLowerPriorityVersionStored,
	}
}

func checkLowerPriorityVersionStored(s *Subject) []Problem {
	storage := apiversion.Parse(s.Storage)
	if storage.Stability == apiversion.NonConforming {
		return nil
	}
	var higher []string
	for _, v := range s.Versions {
		if v.Name == s.Storage {
			break // What follows has a lower priority.
		}
		// From v1beta1 to v2alpha1 is no step back, although the priority is lower.
		if v.Stored && v.TiesWith != s.Storage && apiversion.Parse(v.Name).Major >= storage.Major {
			higher = append(higher, v.Name)
		}
	}
	if len(higher) == 0 {
		return nil
	}
	return []Problem{{
		Version: s.Storage,
		Path:    "status.storedVersions",
		Message: "storage version " + s.Storage + " has a lower priority than " + listed(higher) + ", at which objects may be stored",
		Fix: "Rehearse the rewrite first: " + s.Command("migrate", "") + " --dry-run=server. Or go forward again: " +
			s.Command("promote", higher[0]),
	}}
}

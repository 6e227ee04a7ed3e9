package validate

import "github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"

func versionCouldBeUnserved() Rule {
	return Rule{
		ID:       "version-could-be-unserved",
		Severity: v1alpha1.SeverityInfo,
		Summary:  "a deprecated version is no longer stored and could be taken out of service",
		Why: "Deprecation ends when the version is no longer served. This one is not the storage version and is not stored, so what is left to find out " +
			"is whether clients or ownerReferences still use it. Serving it again is possible at any time.",
		Fix:      "See who still uses it, then stop serving it: kubectl crdver retire VERSION CRD --until unserve.",
		LiveOnly: true,
		Check:    each(checkVersionCouldBeUnserved),
	}
}

func checkVersionCouldBeUnserved(s *Subject, best string, e entry) *Problem {
	if !e.Served || !e.Deprecated || e.Storage || best == "" || !s.Trust.Trusted || s.storedAt(e.Name) {
		return nil
	}
	return &Problem{
		Path:    e.path("served"),
		Message: e.Name + " is deprecated and no longer stored, and could be taken out of service",
		Fix:     s.Command("retire", e.Name) + " --until unserve",
	}
}

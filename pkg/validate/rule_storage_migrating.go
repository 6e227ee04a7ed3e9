package validate

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func storageMigrating() Rule {
	return Rule{
		ID:       "storage-migrating",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "an in-tree storage version migration failed or is going on",
		Why: "The in-tree migration trims status.storedVersions also when it failed, so that a version which objects are still stored at can be " +
			"removed, after which they cannot be read. While one is going on, a change of the spec makes it start from a different state.",
		Fix:      "After a failure run kubectl crdver migrate before any version is removed. While one is going on, wait for it.",
		LiveOnly: true,
		Check:    checkStorageMigrating,
	}
}

func checkStorageMigrating(s *Subject) []Problem {
	condition, path := s.condition(apiextensionsv1.StorageMigrating)
	switch {
	case condition == nil:
	case condition.Status == apiextensionsv1.ConditionTrue:
		return []Problem{{
			Severity: v1alpha1.SeverityInfo,
			Path:     path,
			Message:  "an in-tree storage version migration is going on (" + condition.Reason + "): " + condition.Message,
			Fix:      "Wait for it: kubectl get storageversionmigrations",
		}}
	case condition.Reason == "MigrationFailed" && !s.Proven():
		return []Problem{{
			Path:    path,
			Message: "an in-tree storage version migration failed, and trimmed status.storedVersions all the same: " + condition.Message,
			Fix:     s.Command("migrate", ""),
		}}
	}
	return nil
}

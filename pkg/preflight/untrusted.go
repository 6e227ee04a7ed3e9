package preflight

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// untrusted is about versions that the server lets go because
// status.storedVersions does not list them, where that list can claim less than
// the truth: after an in-tree migration that failed (fact 1), or an edit by hand.
// Objects that are persisted at them become unreadable.
func (c *comparison) untrusted() {
	old := c.oldCRD()
	trust := c.oldState().Trust
	if !c.live() || trust.Trusted || len(trust.Reasons) == 0 {
		return
	}
	var removed []string
	for _, version := range missingFrom(c.newVersions, old) {
		if !c.gone[version] {
			removed = append(removed, version)
		}
	}
	if len(removed) == 0 {
		return
	}
	storage, target := old.StorageVersion(), c.newCRD().StorageVersion()
	problem := validate.Problem{
		Version: removed[0], Path: "spec.versions",
		Message: fmt.Sprintf("objects may still be stored at %s: the manifest removes %s, and the server lets it, but %s",
			strings.Join(removed, ", "), itThem(removed), trust.Reasons[0]),
	}
	storageGone := slices.Contains(removed, storage)
	if !storageGone && !c.migrationFailed() {
		// Whoever trimmed the list may have done it well: it is not proven, no more.
		problem.Severity = v1alpha1.SeverityWarning
		problem.Fix = fmt.Sprintf("Run %s --force before applying the manifest: it proves where the objects are stored.", c.command("migrate", ""))
		c.add(ruleStoredRemoved, problem)
		return
	}
	for _, version := range removed {
		c.gone[version] = true
	}
	if storageGone && c.oldVersions[target] == nil {
		c.bridge(&problem, removed, storage, target)
		c.add(ruleStoredRemoved, problem, clearable)
		return
	}
	problem.Fix = "Before applying the manifest, " + c.way(removed, storage, target, nil) + ": that proves it."
	if c.add(ruleStoredRemoved, problem, clearable) {
		c.addSteps(removed, storage, target, nil)
	}
}

// migrationFailed reports whether an in-tree migration failed: then objects were
// left at the old version, and the list trimmed.
func (c *comparison) migrationFailed() bool {
	if condition := c.oldCRD().Condition(apiextensionsv1.StorageMigrating); condition != nil && condition.Reason == "MigrationFailed" {
		return true
	}
	return slices.ContainsFunc(c.oldState().Observations.Migrations, func(m lifecycle.Migration) bool { return m.Failed })
}

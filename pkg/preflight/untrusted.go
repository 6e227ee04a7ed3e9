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
		c.unproven(removed, problem)
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

// unproven reports versions that somebody took out of the list, or may have:
// whether it was done well, nobody knows, and what is lost if it was not are the
// objects. Evidence comes first: the answer is neither that it is fine nor that it
// breaks.
func (c *comparison) unproven(removed []string, problem validate.Problem) {
	if count := c.oldState().Observations.Objects; count != nil && *count == 0 {
		return // There is none that could be stored at them.
	}
	etcd := make([]string, 0, len(removed))
	for _, version := range removed {
		etcd = append(etcd, fmt.Sprintf("%s --at %s --etcd-snapshot FILE", c.command("stored", ""), version))
	}
	problem.Fix = fmt.Sprintf("Find out before applying the manifest: run %s, which shows what etcd holds. Or prove it: ", strings.Join(etcd, " and "))
	storage, migrate := c.oldCRD().StorageVersion(), c.command("migrate", "")+" --force"
	if c.leavesSpec(removed, storage) {
		problem.Fix += fmt.Sprintf("run %s, which rewrites each object that is stored elsewhere and verifies all, and leaves the spec to %s.",
			migrate, c.oldState().Reverter().Name)
	} else {
		problem.Fix += fmt.Sprintf("%s, which rewrites each object that is stored elsewhere, verifies all, and only then removes %s; "+
			"%s rewrites and verifies them, too, and notes that in the CRD.", c.way(removed, storage, "", nil), strings.Join(removed, ", "), migrate)
	}
	if c.migrationsUnread() {
		// Nothing speaks against the list: it is only not known.
		problem.Severity = v1alpha1.SeverityWarning
	}
	if c.add(ruleStoredRemoved, problem, undecided) {
		c.unknown = true
	}
}

// migrationsUnread reports whether all that speaks against the list is that in-tree
// migrations could not be read.
func (c *comparison) migrationsUnread() bool {
	reasons, err := c.oldState().Trust.Reasons, c.oldState().Observations.MigrationsError
	return err != "" && len(reasons) == 1 && strings.HasSuffix(reasons[0], err)
}

// migrationFailed reports whether an in-tree migration failed: then objects were
// left at the old version, and the list trimmed.
func (c *comparison) migrationFailed() bool {
	if condition := c.oldCRD().Condition(apiextensionsv1.StorageMigrating); condition != nil && condition.Reason == "MigrationFailed" {
		return true
	}
	return slices.ContainsFunc(c.oldState().Observations.Migrations, func(m lifecycle.Migration) bool { return m.Failed })
}

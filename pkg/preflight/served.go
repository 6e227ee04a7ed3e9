package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/apiversion"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// served looks at versions that clients lose.
func (c *comparison) served() {
	for _, name := range c.oldCRD().Served() {
		next := c.newVersions[name]
		switch {
		case next == nil:
			c.lost(ruleServedRemoved, name, "is served and the manifest removes it")
		case !next.Served:
			c.lost(ruleServedUnserved, name, "is served and the manifest stops serving it")
		}
	}
	for _, name := range missingFrom(c.newVersions, c.oldCRD()) {
		if !c.oldVersions[name].Served {
			c.named(name)
		}
	}
	before, after := c.oldCRD().KubectlDefault(), c.newCRD().KubectlDefault()
	if before != "" && after != "" && before != after {
		named := before
		if v := c.newVersions[before]; v == nil || !v.Served {
			named = after
		}
		c.add(ruleDefaultChanged, validate.Problem{
			Version: after, Path: c.New.VersionPath(after, "served"), Message: fmt.Sprintf("kubectl uses %s from now on instead of %s", after, before),
			Fix: fmt.Sprintf("Name the version in scripts: kubectl get %s.%s.%s.", c.newCRD().Spec.Names.Plural, named, c.newCRD().Spec.Group),
		})
	}
}

// lost reports a version that clients lose, and who they are as far as the
// managedFields of live objects tell.
func (c *comparison) lost(rule, version, how string) {
	problem := validate.Problem{Version: version, Path: "spec.versions", Message: version + " " + how}
	if i := c.newCRD().VersionIndex(version); i >= 0 {
		problem.Path = c.New.VersionPath(version, "served")
	}
	users, asked := c.Users[version]
	if c.gone[version] && users.Objects == 0 {
		return // It is among the stored versions that have to be retired first.
	}
	switch {
	case !asked:
		c.unknown = true
		problem.Message += "; who uses it is not known"
	case users.Error != "":
		c.unknown = true
		problem.Message += "; who uses it could not be found out: " + users.Error
	case users.Objects == 0:
		problem.Message += "; managedFields of no live object name it, which does not tell who only reads"
	default:
		problem.Severity = v1alpha1.SeverityError
		problem.Message += fmt.Sprintf("; managedFields of %s name it: %s", english.Plural(users.Objects, "object"), strings.Join(users.Managers, ", "))
		if rule == ruleServedRemoved {
			problem.Message += "; once it is gone, server-side apply to them fails for every manager"
		}
	}
	c.addLost(rule, version, problem)
}

// named reports a version that no client can use any more and that managedFields
// of live objects still name: once it is removed, nobody can server-side apply
// them (fact 5).
func (c *comparison) named(version string) {
	users, asked := c.Users[version]
	if (c.gone[version] || asked && users.Error == "") && users.Objects == 0 {
		return // No object names it, or it has to be retired first, which looks.
	}
	problem := validate.Problem{
		Version: version, Path: "spec.versions", Severity: v1alpha1.SeverityWarning, Message: "the manifest removes " + version + ", which is not served",
	}
	switch {
	case !asked:
		c.unknown = true
		problem.Message += "; whether managedFields of objects name it is not known"
	case users.Error != "":
		c.unknown = true
		problem.Message += "; whether managedFields of objects name it could not be found out: " + users.Error
	default:
		problem.Severity = v1alpha1.SeverityError
		problem.Message += fmt.Sprintf("; managedFields of %s name it: %s; once it is gone, server-side apply to them fails for every manager",
			english.Plural(users.Objects, "object"), strings.Join(users.Managers, ", "))
	}
	c.addLost(ruleManagedFieldsName, version, problem)
}

// addLost adds a finding about a version that goes, with the step that clears it.
func (c *comparison) addLost(rule, version string, problem validate.Problem) {
	// Retiring unserves the version, moves managedFields and removes it, with the
	// checks that applying the manifest leaves out.
	retires := c.refusedWithSteps && c.gone[version]
	clears := rule != ruleServedUnserved && c.live() && (retires || c.oldCRD().StorageVersion() != version && c.servedBeside(version))
	if !clears {
		c.add(rule, problem)
		return
	}
	problem.Fix = fmt.Sprintf("Before applying the manifest, run %s, which moves managedFields.", c.command("retire", version))
	if rule == ruleServedRemoved {
		problem.Fix = fmt.Sprintf("When nobody uses it any more, run %s before applying the manifest.", c.command("retire", version))
	}
	if problem.Severity == v1alpha1.SeverityError {
		if c.add(rule, problem, clearable) {
			c.step(c.command("retire", version))
		}
		return
	}
	c.add(rule, problem)
}

// servedBeside reports whether the CRD that is there serves another version.
func (c *comparison) servedBeside(version string) bool {
	return slices.ContainsFunc(c.oldCRD().Served(), func(served string) bool { return served != version })
}

// storage looks at a change of the storage version.
func (c *comparison) storage() {
	before, after := c.oldCRD().StorageVersion(), c.newCRD().StorageVersion()
	if before == "" || after == "" {
		return
	}
	if before == after {
		c.unfinished()
		return
	}
	problem := validate.Problem{
		Version: after, Path: c.New.VersionPath(after, "storage"),
		Message: fmt.Sprintf("the storage version changes from %s to %s: objects stay persisted at %s until they are rewritten", before, after, before),
	}
	if c.newVersions[before] == nil {
		// Refused, or done by the steps that clear the way.
		return
	}
	problem.Fix = fmt.Sprintf("After applying the manifest, run %s.", c.command("migrate", ""))
	c.afterwards(c.command("migrate", ""))
	if name := c.running(); name != "" {
		// It rewrites at what was the storage version when it began, and trims (case 23).
		problem.Severity = v1alpha1.SeverityWarning
		problem.Message += fmt.Sprintf("; StorageVersionMigration %s, which rewrites them at %s, is not finished", name, before)
		problem.Fix = fmt.Sprintf("Wait until StorageVersionMigration %s is finished before applying the manifest, then run %s.", name, c.command("migrate", ""))
	}
	if c.back(before, after) {
		problem.Message = strings.Replace(problem.Message, "changes from", "goes back from", 1)
		c.add(ruleStorageChangedBack, problem)
		return
	}
	c.add(ruleStorageChanged, problem)
}

// back reports whether a storage version is an earlier one than the present one. A
// version that the manifest brings is not, nor is the alpha of the next major
// version; of names that do not conform, only one that was stored before is.
func (c *comparison) back(from, to string) bool {
	if c.oldVersions[to] == nil {
		return false
	}
	a, b := apiversion.Parse(from), apiversion.Parse(to)
	if a.Stability == apiversion.NonConforming || b.Stability == apiversion.NonConforming {
		return slices.Contains(c.oldState().Stored, to)
	}
	return apiversion.Compare(to, from) < 0 && b.Major <= a.Major
}

// running returns the in-tree migration that is not finished, or "".
func (c *comparison) running() string {
	for _, migration := range c.oldState().Observations.Migrations {
		if migration.Running {
			return migration.Name
		}
	}
	return ""
}

// unfinished reminds of a migration that should be done before the next release.
func (c *comparison) unfinished() {
	if !c.live() {
		return
	}
	var others []string
	for _, version := range c.oldState().StoredElsewhere(c.oldCRD().StorageVersion()) {
		if c.newVersions[version] != nil {
			others = append(others, version)
		}
	}
	if len(others) == 0 {
		return
	}
	c.add(ruleMigrationUnfinished, validate.Problem{
		Severity: v1alpha1.SeverityInfo, Version: others[0],
		Message: fmt.Sprintf("objects may still be stored at %s: a release that removes it will be refused", strings.Join(others, ", ")),
		Fix:     fmt.Sprintf("Run %s.", c.command("migrate", "")),
	})
}

// deprecation looks at versions whose deprecation changes.
func (c *comparison) deprecation() {
	for _, name := range c.newCRD().VersionNames() {
		old, next := c.oldVersions[name], c.newVersions[name]
		if old == nil || old.Deprecated == next.Deprecated {
			continue
		}
		problem := validate.Problem{Version: name, Path: c.New.VersionPath(name, "deprecated"), Message: name + " becomes deprecated: clients get a warning with each request"}
		if !next.Deprecated {
			problem.Message = name + " is no longer deprecated"
		}
		c.add(ruleDeprecationChanged, problem)
	}
}

// owner says who else writes the CRD.
func (c *comparison) owner() {
	if !c.live() {
		return
	}
	if owner := c.oldState().Reverter(); owner != nil {
		c.add(ruleOwner, validate.Problem{
			Message: fmt.Sprintf("the CRD is owned by %s (%s): edits of its spec are put back, and status.storedVersions is not trimmed by it",
				strings.TrimSpace(owner.Name+" "+owner.Instance), owner.Evidence),
		})
	}
}

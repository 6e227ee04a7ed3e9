package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// RetiredAnnotation lists the versions that this tool removed from a CRD. It is
// written in the same patch as the removal, so that running retire again can
// tell "done" from "mistyped".
const RetiredAnnotation = v1alpha1.AnnotationRetired

// Retired reports whether this tool removed the version from the CRD.
func Retired(annotations map[string]string, version string) bool {
	return slices.Contains(strings.Split(annotations[RetiredAnnotation], ","), version)
}

// retire plans: VERSION gone.
func (b *builder) retire() error {
	version := b.intent.Version
	v := b.state.Version(version)
	if v == nil {
		return b.retireAbsent(version)
	}
	if b.endBrownout() {
		return nil
	}
	removal := b.leaving(version)
	if slices.ContainsFunc(removal, func(x v1alpha1.Blocker) bool {
		return x.ID == lifecycle.BlockStorageVersion || x.ID == lifecycle.BlockOnlyServed
	}) {
		// Another version has to take over first; the steps will be others then.
		return nil
	}
	soak, ok := b.readSoak(version)
	if !ok {
		return nil
	}
	if v.Deprecated && v.Served && b.soaking(version, v1alpha1.SoakDeprecated, soak) {
		return nil
	}
	if !v.Served && b.soaking(version, v1alpha1.SoakUnserved, soak) {
		return nil
	}
	return b.retireSteps(version, v, soak, removal)
}

// retireSteps adds the steps of a retirement that is not waiting.
func (b *builder) retireSteps(version string, v *lifecycle.Version, soak *v1alpha1.Soak, removal []v1alpha1.Blocker) error {
	// The rewrite comes before the removal even where storedVersions says that
	// there is nothing to do: it can claim less than the truth (rule 3).
	b.rehearse(b.state.Storage)
	if !v.Deprecated {
		warning, err := b.warning(version, b.intent.Replacement)
		if err != nil {
			return err
		}
		b.deprecateStep(v1alpha1.ActionDeprecate, version, warning)
		if duration := b.soakFor(soak); duration > 0 && v.Served {
			b.soakStarts(version, v1alpha1.SoakDeprecated, duration)
			return nil
		}
	}
	if v.Served {
		b.unserve(version, removal)
		if duration := b.soakFor(soak); duration > 0 {
			b.soakStarts(version, v1alpha1.SoakUnserved, duration)
			return nil
		}
	}
	b.rewrite()
	b.cleanManagedFields(version)
	b.remove(version)
	marks, _ := b.state.MarksOf(version) // With one that cannot be read, the plan does not come this far.
	b.clear(version, marks, v1alpha1.ActionRemove)
	return nil
}

// retireAbsent decides what it means that the version is not there: removed by
// this tool or by somebody else, which is the goal, or mistyped, which is an error.
func (b *builder) retireAbsent(version string) error {
	if slices.Contains(b.state.Stored, version) {
		b.block(v1alpha1.Blocker{
			ID: blockBogus,
			Message: fmt.Sprintf("%s is in status.storedVersions but not in spec.versions: objects may be stored at it, "+
				"and the server refuses every change of the spec", version),
			Resolve: b.migrateCommand(),
		})
		return nil
	}
	if Retired(b.state.CRD.Annotations, version) || b.state.Observations.LostVersion != "" {
		return nil
	}
	if near := b.state.Nearest(version); near != "" {
		return b.unknownVersion(version)
	}
	b.warn("%s has no version %s: nothing is left to retire (it has %s)",
		b.state.CRD.Name, version, join(b.state.CRD.VersionNames()))
	return nil
}

func (b *builder) migrateCommand() string {
	return "kubectl crdver migrate " + b.state.CRD.Name
}

// leaving blocks where the version may not leave at all: no step of a
// retirement may be taken then.
func (b *builder) leaving(version string) []v1alpha1.Blocker {
	blockers := b.state.MayUnserve(version, b.intent.AllowOwnerReferences)
	if v := b.state.Version(version); !v.Served {
		// Not served already; it may still be the storage version.
		blockers = slices.DeleteFunc(b.state.MayRemove(version), func(x v1alpha1.Blocker) bool {
			return x.ID == lifecycle.BlockStored || x.ID == lifecycle.BlockStillServed
		})
	}
	b.block(blockers...)
	return blockers
}

// unserve sets served: false.
func (b *builder) unserve(version string, blockers []v1alpha1.Blocker) {
	b.add(b.unserveStep(version, blockers))
	b.unrescue(version)
}

func (b *builder) unserveStep(version string, blockers []v1alpha1.Blocker) v1alpha1.Step {
	step := b.serving(version, false)
	step.Why = "clients of this version fail from here on, and can be brought back in one command"
	step.Preconditions = slices.Concat([]v1alpha1.Precondition{{
		ID: "leaves", Description: fmt.Sprintf("%s is not the storage version, and another version is served", version),
		Status: status(slices.DeleteFunc(slices.Clone(blockers), isReference)),
	}}, b.noReferences(version, blockers), b.usePrecondition(version))
	return step
}

// cleanManagedFields moves the managedFields entries of the version.
func (b *builder) cleanManagedFields(version string) {
	storage := b.after.StorageVersion()
	step := v1alpha1.Step{
		Action:   v1alpha1.ActionCleanManagedFields,
		Version:  version,
		Endpoint: b.endpoint(),
		Title:    fmt.Sprintf("move managedFields entries of %s to %s", version, storage),
		Why:      "an entry that names a version which is not there breaks server-side apply for every manager of the object",
		Preconditions: []v1alpha1.Precondition{{
			ID: "unserved", Description: fmt.Sprintf("%s is not served, so that no new entry can name it", version),
			Status: v1alpha1.PreconditionPending,
		}},
		Objects:    b.objects(),
		Verify:     []v1alpha1.Check{{ID: "none-left", Description: fmt.Sprintf("a whole pass found no entry of %s", version)}},
		Reversible: true,
	}
	b.heldWrites(&step)
	b.add(step)
}

// remove takes the version out of spec.versions.
func (b *builder) remove(version string) {
	i, _ := b.index(version)
	b.after.Spec.Versions = slices.Delete(b.after.Spec.Versions, i, i+1)
	operations := []v1alpha1.PatchOperation{
		testName(i, version),
		{Op: "remove", Path: fmt.Sprintf("/spec/versions/%d", i)},
	}
	annotations := b.after.Annotations // As the steps before leave them.
	retired := version
	if old := annotations[RetiredAnnotation]; Retired(annotations, version) {
		retired = old
	} else if old != "" {
		retired = old + "," + version
	}
	operations = append(operations, Annotate(RetiredAnnotation, retired))
	before := annotations[RetiredAnnotation]
	b.after.Annotations = maps.Clone(annotations)
	if b.after.Annotations == nil {
		b.after.Annotations = map[string]string{}
	}
	b.after.Annotations[RetiredAnnotation] = retired
	b.add(v1alpha1.Step{
		Action:  v1alpha1.ActionRemove,
		Version: version,
		Title:   fmt.Sprintf("remove %s from spec.versions", version),
		Why:     "nothing is stored at it, nothing names it",
		Preconditions: []v1alpha1.Precondition{
			{ID: "unserved", Description: fmt.Sprintf("%s is neither served nor the storage version", version), Status: v1alpha1.PreconditionPending},
			{ID: "verified", Description: "a complete verify pass in this run found no object at another version than the storage version", Status: v1alpha1.PreconditionPending},
			{ID: "trimmed", Description: fmt.Sprintf("status.storedVersions does not list %s", version), Status: v1alpha1.PreconditionPending},
			{ID: "managed-fields", Description: fmt.Sprintf("no managedFields entry names %s", version), Status: v1alpha1.PreconditionPending},
		},
		Patch: jsonPatch("", operations...),
		Changes: []v1alpha1.Change{
			{Path: fmt.Sprintf("spec.versions[%s]", version), From: "served: false, storage: false, and its schema"},
			{Path: fmt.Sprintf("metadata.annotations[%s]", RetiredAnnotation), From: quote(before), To: quote(retired)},
		},
		Verify: []v1alpha1.Check{
			{ID: "absent", Description: fmt.Sprintf("%s is not in spec.versions", version)},
			{ID: "readable", Description: "every object can be listed (LIST, all pages)"},
		},
		Reversible: false,
		Undo:       fmt.Sprintf("kubectl crdver restore %s -f MANIFEST %s (from a manifest that still has it)", version, b.state.CRD.Name),
	})
	b.unrescue(version)
}

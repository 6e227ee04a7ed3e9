package plan

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/apiversion"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// promote plans: VERSION served, storage, every object persisted at it, and
// storedVersions exactly [VERSION].
func (b *builder) promote() error {
	version := b.intent.Version
	if b.state.Version(version) == nil {
		if err := b.addVersion(); err != nil {
			return err
		}
	}
	if b.intent.Definition != nil && b.state.Version(version) != nil {
		b.warn("%s is already in spec.versions: the manifest %s is not used", version, b.intent.DefinitionSource)
	}
	b.serve(version)
	flips := b.state.Storage != version
	if flips || b.migrationPending() {
		b.rehearse(version)
	}
	if flips {
		b.setStorage(version)
	}
	if flips || b.migrationPending() {
		b.rewrite()
	}
	if b.intent.DeprecateOlder {
		return b.deprecateOlder(version)
	}
	return nil
}

// migrate plans: every object persisted at the storage version, and
// storedVersions exactly that.
func (b *builder) migrate() {
	if b.intent.Retry != nil {
		b.retry()
		return
	}
	if !b.migrationPending() && !b.intent.Force && !b.narrowed() {
		return
	}
	b.selectionWarnings()
	if b.noneSelected() {
		b.plan.Complete = false
		return
	}
	if b.endpoint() == "" {
		b.block(b.mayMigrate()...)
		return
	}
	b.rehearse(b.state.Storage)
	b.rewrite()
}

// migrationPending reports whether objects may be persisted at another version
// than the storage version: because the list says so, or because it cannot be
// trusted (rule 3).
func (b *builder) migrationPending() bool {
	return !b.state.StoredExactly(b.state.Storage) || !b.state.Trust.Trusted
}

// addVersion adds an entry to spec.versions, unserved: from a manifest, or as a
// copy of another version.
func (b *builder) addVersion() error {
	version, source := b.intent.Version, ""
	entry := b.intent.Definition.DeepCopy()
	switch {
	case entry != nil:
		source = "from " + b.intent.DefinitionSource
	case b.intent.From != "":
		from := b.state.CRD.Version(b.intent.From)
		if from == nil {
			return b.unknownVersion(b.intent.From)
		}
		entry = from.DeepCopy()
		entry.Deprecated, entry.DeprecationWarning = false, nil
		source = "a copy of " + b.intent.From
	default:
		return fmt.Errorf("%w; to add %s, name a manifest that has it with -f, or a version to copy with --from",
			b.unknownVersion(version), version)
	}
	if problems := validation.IsDNS1035Label(version); len(problems) > 0 {
		return inputErrorf("%q cannot be the name of a version: %s", version, problems[0])
	}
	entry.Name, entry.Served, entry.Storage = version, false, false
	b.after.Spec.Versions = append(b.after.Spec.Versions, *entry)
	b.add(v1alpha1.Step{
		Action:  v1alpha1.ActionAdd,
		Version: version,
		Title:   fmt.Sprintf("add %s to spec.versions, unserved", version),
		Why:     fmt.Sprintf("%s has no version %s; the new entry is %s", b.state.CRD.Name, version, source),
		Preconditions: []v1alpha1.Precondition{{
			ID: "absent", Description: fmt.Sprintf("%s is not in spec.versions", version), Status: v1alpha1.PreconditionMet,
		}},
		Patch: AddVersion(*entry),
		Changes: []v1alpha1.Change{{
			Path: fmt.Sprintf("spec.versions[%s]", version), To: fmt.Sprintf("served: false, storage: false, %s", source),
		}},
		Verify: []v1alpha1.Check{{
			ID: "present", Description: fmt.Sprintf("%s is in spec.versions, and the CRD is accepted (NonStructuralSchema is not True)", version),
		}},
		Reversible: true,
		Undo:       b.command("retire", version),
	})
	b.unrescue(version)
	return nil
}

// AddVersion returns the patch that appends an entry to spec.versions.
func AddVersion(entry apiextensionsv1.CustomResourceDefinitionVersion) *v1alpha1.Patch {
	return jsonPatch("", v1alpha1.PatchOperation{Op: "add", Path: "/spec/versions/-", Value: value(entry)})
}

// serve sets served: true.
func (b *builder) serve(version string) {
	if _, entry := b.index(version); entry.Served {
		return
	}
	step := b.serving(version, true)
	b.lossy(version)
	step.Why = fmt.Sprintf("%s is not served: clients cannot use it", version)
	step.Undo = fmt.Sprintf("kubectl crdver retire %s --until unserve %s", version, b.state.CRD.Name)
	b.add(step)
	b.unrescue(version)
}

// rehearse dry-runs the no-op patch on live objects before anything depends on it.
func (b *builder) rehearse(storage string) {
	endpoint := b.endpoint()
	st := v1alpha1.PreconditionMet
	switch o := b.state.Observations; {
	case o.Rehearsal == nil && o.RehearsalError == "":
		st = v1alpha1.PreconditionPending
	case o.RehearsalError != "" || o.ConverterProblem != "" || o.Rehearsal.RefusedCount > 0 && b.intent.Retry == nil:
		st = v1alpha1.PreconditionUnmet
	default:
		found := o.Rehearsal.Lost
		if o.Conversion != nil {
			found = slices.Concat(found, o.Conversion.Lost)
		}
		lost, _ := Lossy(b.intent, b.state.CRD.Name, found)
		if len(lost) > 0 {
			st = v1alpha1.PreconditionUnmet
		}
	}
	description := "no object is refused and no field is lost"
	if b.intent.Retry != nil {
		description = "no field is lost" // What is refused, the retry is to find out.
	}
	if b.state.Observations.ConversionError != "" {
		description += ", as far as the conversion webhook could be asked"
	}
	b.add(v1alpha1.Step{
		Action:   v1alpha1.ActionRehearse,
		Version:  storage,
		Endpoint: endpoint,
		Title:    fmt.Sprintf("rehearse the rewrite of the objects through %s (server dry run)", b.by(endpoint)),
		Why:      "an object that admission, validation or conversion refuses, or a field that the schema drops, is found before anything is written",
		Preconditions: []v1alpha1.Precondition{{
			ID: "rehearsal", Description: description, Status: st,
		}},
		Objects:    b.objects(),
		Verify:     []v1alpha1.Check{{ID: "clean", Description: strings.NewReplacer("is refused", "was refused", "is lost", "would be lost").Replace(description)}},
		Reversible: true,
	})
}

// endpoint returns the version that objects are rewritten through once the
// steps so far are done: the storage version when served, otherwise the best
// served one.
func (b *builder) endpoint() string {
	target := b.after.StorageVersion()
	if b.intent.Verb == v1alpha1.VerbPromote {
		target = b.intent.Version
	}
	if entry := b.after.Version(target); entry != nil && entry.Served {
		return target
	}
	return b.after.KubectlDefault()
}

// setStorage makes a version the storage version, in one patch: the server
// allows exactly one at any time.
func (b *builder) setStorage(version string) {
	// An earlier step serves it, where it is not served yet.
	var blockers []v1alpha1.Blocker
	if !b.has(v1alpha1.ActionServe) {
		blockers = b.state.MaySetStorage(version)
	}
	b.block(blockers...)
	b.warnWriters(version)
	old := b.after.StorageVersion()
	i, oldEntry := b.index(old)
	j, newEntry := b.index(version)
	oldEntry.Storage, newEntry.Storage = false, true
	b.add(v1alpha1.Step{
		Action:  v1alpha1.ActionSetStorage,
		Version: version,
		Title:   fmt.Sprintf("make %s the storage version", version),
		Why:     fmt.Sprintf("objects are written at %s; from now on every write persists %s", old, version),
		Preconditions: []v1alpha1.Precondition{
			{ID: "served", Description: fmt.Sprintf("%s is served", version), Status: b.pendingOnceServed(status(blockers))},
			{ID: "rehearsed", Description: "the rehearsal found nothing", Status: b.rehearsed()},
		},
		Patch: jsonPatch("",
			testName(i, old), testName(j, version), setFlag(i, "storage", false), setFlag(j, "storage", true)),
		Changes: []v1alpha1.Change{flagChange(old, "storage", false), flagChange(version, "storage", true)},
		Verify: []v1alpha1.Check{
			{ID: "storage", Description: fmt.Sprintf("%s is the storage version and in status.storedVersions", version)},
		},
		Reversible: true,
		Undo:       b.command("promote", old),
	})
}

// pendingOnceServed makes a met precondition pending where an earlier step makes it true.
func (b *builder) pendingOnceServed(st v1alpha1.PreconditionStatus) v1alpha1.PreconditionStatus {
	if st == v1alpha1.PreconditionMet && (b.has(v1alpha1.ActionServe) || b.has(v1alpha1.ActionAdd)) {
		return v1alpha1.PreconditionPending
	}
	return st
}

// rehearsed returns the status of the precondition that the rehearsal was clean.
func (b *builder) rehearsed() v1alpha1.PreconditionStatus {
	for _, step := range b.plan.Steps {
		if step.Action == v1alpha1.ActionRehearse {
			return step.Preconditions[0].Status
		}
	}
	return v1alpha1.PreconditionMet
}

// rewrite plans barrier, migrate, verify and trim.
func (b *builder) rewrite() {
	b.chooseEngine()
	blockers := b.mayMigrate()
	if b.has(v1alpha1.ActionServe) {
		blockers = slices.DeleteFunc(blockers, func(x v1alpha1.Blocker) bool { return x.ID == lifecycle.BlockNoneServed })
	}
	b.block(blockers...)
	storage, endpoint := b.after.StorageVersion(), b.endpoint()
	b.barrier(storage, endpoint)
	if b.inTree() {
		b.inTreeMigrate(storage, endpoint)
	} else {
		b.clientMigrate(storage, endpoint, blockers)
	}
	if b.narrowed() {
		b.plan.Complete = false
		b.warn("only a part of the objects is migrated: status.storedVersions is not trimmed")
		return
	}
	b.verify(storage)
}

// clientMigrate plans the first pass of the client engine.
func (b *builder) clientMigrate(storage, endpoint string, blockers []v1alpha1.Blocker) {
	where, through := b.whichObjects(), b.by(endpoint)
	b.add(v1alpha1.Step{
		Action:   v1alpha1.ActionMigrate,
		Version:  storage,
		Endpoint: endpoint,
		Title:    fmt.Sprintf("rewrite %s at %s with no-op patches through %s", where, storage, through),
		Why:      b.whyMigrate(storage),
		Preconditions: []v1alpha1.Precondition{
			{ID: "endpoint", Description: fmt.Sprintf("%s is served", endpoint), Status: b.pendingOnceServed(status(blockers))},
		},
		Objects:    b.objects(),
		Verify:     b.migrateChecks(),
		Reversible: true,
	})
}

// barrier plans to wait until the servers persist at the storage version.
func (b *builder) barrier(storage, endpoint string) {
	b.add(v1alpha1.Step{
		Action:   v1alpha1.ActionBarrier,
		Version:  storage,
		Endpoint: endpoint,
		Title:    fmt.Sprintf("wait until every server persists at %s", storage),
		Why:      "a write right after a change of the storage version may still land at the old one",
		Verify: []v1alpha1.Check{{
			ID: "settled", Description: "storageVersionHash agrees over fresh connections, and a rewritten object stays as it is",
		}},
		Reversible: true,
	})
}

func (b *builder) whyMigrate(storage string) string {
	others := b.state.StoredElsewhere(storage)
	if b.intent.Verb == v1alpha1.VerbRescue {
		others = slices.DeleteFunc(slices.Clone(b.after.Status.StoredVersions), func(name string) bool { return name == storage })
	}
	switch {
	case len(others) > 0:
		return fmt.Sprintf("status.storedVersions says that objects may be stored at %s", join(others))
	case b.state.Storage != storage:
		return fmt.Sprintf("the objects are stored at %s", b.state.Storage)
	case !b.state.Trust.Trusted && len(b.state.Trust.Reasons) > 0:
		return "status.storedVersions cannot be trusted: " + b.state.Trust.Reasons[0]
	default:
		return "a read cannot tell at which version an object is stored, a rewrite can"
	}
}

// trim removes all other entries from status.storedVersions.
func (b *builder) trim(storage string) {
	before := b.listed()
	if !slices.Contains(before, b.state.Storage) {
		// The server appends it with any write of the CRD, and the hold is one.
		before = append(before, b.state.Storage)
	}
	if b.state.Storage != storage && !slices.Contains(before, storage) {
		// The server appends the new storage version itself.
		before = append(before, storage)
	}
	if len(before) == 1 && before[0] == storage {
		b.record(storage)
		return
	}
	changes := []v1alpha1.Change{{Path: "status.storedVersions", From: bracket(before), To: bracket([]string{storage})}}
	b.add(v1alpha1.Step{
		Action:        v1alpha1.ActionTrim,
		Version:       storage,
		Title:         fmt.Sprintf("trim status.storedVersions to [%s]", storage),
		Why:           "no object is stored at another version, and the server keeps a version in spec.versions as long as it is listed",
		Preconditions: onceVerified(),
		Patch:         StoredPatch([]string{storage}),
		Changes:       changes,
		Verify:        []v1alpha1.Check{{ID: "trimmed", Description: fmt.Sprintf("status.storedVersions is [%s]", storage)}},
		Reversible:    false,
	})
	b.after.Status.StoredVersions = []string{storage}
}

// deprecateOlder deprecates the served versions of lower priority.
func (b *builder) deprecateOlder(version string) error {
	for _, v := range b.state.Versions {
		if apiversion.Compare(version, v.Name) <= 0 || apiversion.Tie(version, v.Name) || v.Deprecated || !v.Served {
			continue
		}
		warning, err := b.warning(v.Name, version)
		if err != nil {
			return err
		}
		b.deprecateStep(v1alpha1.ActionDeprecateOlder, v.Name, warning)
	}
	return nil
}

// command returns a command of this tool for the CRD, ready to paste.
func (b *builder) command(verb, version string) string {
	return fmt.Sprintf("kubectl crdver %s %s %s", verb, version, b.state.CRD.Name)
}

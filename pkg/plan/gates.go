package plan

import (
	"fmt"
	"slices"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

// Identifiers of the blockers that do not come from a legal move.
const (
	blockRefused         = "rehearsal-refused"
	blockLost            = "rehearsal-lost-fields"
	blockRehearsalFailed = "rehearsal-failed"
	blockConverter       = "conversion-webhook"
	blockConversionLost  = "conversion-lost-fields"
	blockAccess          = "access"
	blockDenied          = "dry-run-denied"
	blockSchema          = "schema-lacks-fields"
	blockBogus           = "stored-not-in-spec"
	blockHeld            = "held"
	blockCorrupt         = "objects-corrupt"
	blockUnread          = "objects-unread"
	blockUnseen          = "objects-unseen"
	blockInTreeLoss      = "in-tree-loses-fields"
)

// gates adds what stands in the way of the steps that are left.
func (b *builder) gates() {
	switch b.intent.Verb {
	case v1alpha1.VerbPromote, v1alpha1.VerbMigrate, v1alpha1.VerbRetire:
		b.block(b.state.MayReadObjects()...)
	case v1alpha1.VerbDeprecate, v1alpha1.VerbRestore, v1alpha1.VerbRescue, v1alpha1.VerbBrownout:
	}
	b.etcdGate()
	if len(b.plan.Steps) == 0 {
		b.atWorkWarning()
		return
	}
	b.verifyGate()
	b.unseenGate()
	o := b.state.Observations
	b.heldGate(o.Held)
	b.useGate()
	b.brownoutGate()
	if len(o.MissingRules) > 0 {
		b.block(v1alpha1.Blocker{
			ID:      blockAccess,
			Message: "you lack permissions that the plan needs",
			Resolve: "ask for a ClusterRole with these rules, or use another account (--as, --context)",
			Details: o.MissingRules,
		})
	}
	if o.AccessError != "" {
		b.warn("permissions could not be checked beforehand: %s", o.AccessError)
	}
	for _, denial := range o.Denied {
		b.block(v1alpha1.Blocker{
			ID:      blockDenied,
			Message: fmt.Sprintf("the server would refuse the step %s (server dry run): %s", denial.Step, denial.Message),
			Resolve: "change the policy or the CRD that the message names",
		})
	}
	if b.has(v1alpha1.ActionRehearse) {
		b.rehearsalGate()
		b.converterGate(o)
	}
	if b.changesSpec() {
		b.bogusGate()
	}
	if b.migrates() {
		b.webhookWarning()
		b.engineGates()
	}
	if v := b.state.Version(b.intent.Version); b.intent.Verb == v1alpha1.VerbPromote && v != nil && v.Deprecated {
		b.warn("%s is deprecated", v.Name)
	}
	b.tieWarning()
	if running := b.runningMigration(); running != "" && !b.migrates() {
		b.warn("StorageVersionMigration %s is not finished", running)
	}
	if m := b.state.Reverter(); m != nil && b.changesSpec() {
		b.warn("the CRD is owned by %s (%s): change its manifest too, or it will put the spec back", m.Name, m.Evidence)
	}
}

// heldGate blocks while another run is at work. What brings clients back may be
// done at any time.
func (b *builder) heldGate(held string) {
	switch {
	case held == "":
	case b.intent.Verb == v1alpha1.VerbRestore:
		b.warn("another run is at work, and will stop when the CRD changes: %s", held)
	default:
		b.block(v1alpha1.Blocker{
			ID:      blockHeld,
			Message: "another run is at work: " + held,
			Resolve: "wait until it is done; if it is no longer alive, --take-over watches it for a while and then takes its place",
		})
	}
}

// atWorkWarning says who is at work where nothing is left to do: it may look so only
// until they are done, or fail.
func (b *builder) atWorkWarning() {
	if held := b.state.Observations.Held; held != "" {
		b.warn("another run is at work: %s; run again when it is done", held)
	}
	if running := b.runningMigration(); running != "" {
		b.warn("StorageVersionMigration %s is not finished; run again when it is", running)
	}
}

// tieWarning warns where clients cannot know which version they get.
func (b *builder) tieWarning() {
	v := b.state.Version(b.intent.Version)
	if b.intent.Verb != v1alpha1.VerbPromote || v == nil || v.TiesWith == "" {
		return
	}
	b.warn("%s and %s have the same priority: which of them kubectl uses by default is undefined while both are served",
		v.Name, v.TiesWith)
}

// bogusGate blocks where status.storedVersions lists a version that
// spec.versions will not have: the server then refuses every update of the spec
// (fact 13), and says only that the version "must remain".
func (b *builder) bogusGate() {
	bogus := slices.DeleteFunc(b.state.BogusStored(), func(name string) bool { return b.after.Version(name) != nil || b.adds(name) })
	if len(bogus) == 0 {
		return
	}
	b.block(v1alpha1.Blocker{
		ID: blockBogus,
		Message: fmt.Sprintf("status.storedVersions lists %s, which spec.versions does not have: the server refuses every change of the spec",
			join(bogus)),
		Resolve: b.migrateCommand() + " (rewrites and verifies every object, then trims the list)",
	})
}

// adds reports whether a step adds a version.
func (b *builder) adds(version string) bool {
	return slices.ContainsFunc(b.plan.Steps, func(s v1alpha1.Step) bool { return s.Action == v1alpha1.ActionAdd && s.Version == version })
}

func (b *builder) runningMigration() string {
	for _, m := range b.state.Observations.Migrations {
		if m.Running {
			return m.Name
		}
	}
	return ""
}

// changesSpec reports whether a step patches the main resource.
func (b *builder) changesSpec() bool {
	for _, step := range b.plan.Steps {
		if step.Patch != nil && step.Patch.Subresource == "" {
			return true
		}
	}
	return false
}

// rehearsal returns what was found out about the rewrite of the objects.
func (b *builder) rehearsal() *v1alpha1.Rehearsal {
	found := b.state.Observations.Rehearsal
	if found == nil || b.state.Observations.Conversion == nil {
		return found
	}
	with := *found
	with.Conversion = b.state.Observations.Conversion
	return &with
}

// converted reports whether all objects are persisted at the storage version, from
// which nothing has to be converted, by a list that can be trusted.
func (b *builder) converted() bool {
	return b.state.Trust.Trusted && slices.Equal(b.state.Stored, []string{b.after.StorageVersion()})
}

// rehearsalGate blocks on objects that the server would refuse to rewrite and
// on fields that a rewrite would lose (facts 6 and 12).
func (b *builder) rehearsalGate() {
	o := b.state.Observations
	if o.RehearsalError != "" && o.LostVersion == "" {
		b.block(v1alpha1.Blocker{
			ID:      blockRehearsalFailed,
			Message: "the rehearsal could not be made: " + o.RehearsalError,
			Resolve: "put right what the message says and run again",
		})
	}
	r := o.Rehearsal
	if r == nil {
		return
	}
	if r.RefusedCount > 0 && b.intent.Retry != nil {
		b.warn("the server would refuse to rewrite %d of %s by now", r.RefusedCount, english.Plural(r.Sampled, "object"))
	} else if r.RefusedCount > 0 {
		details := make([]string, 0, len(r.Refused))
		for _, f := range r.Refused {
			details = append(details, fmt.Sprintf("%s: %s: %s", objectName(f.Namespace, f.Name), f.Reason, f.Message))
		}
		b.block(v1alpha1.Blocker{
			ID:      blockRefused,
			Message: fmt.Sprintf("the server would refuse to rewrite %d of %s", r.RefusedCount, english.Plural(r.Sampled, "object")),
			Resolve: b.offerDetour("change these objects, or the policy, webhook or schema that refuses them"),
			Details: details,
		})
	}
	b.detourWarning()
	b.lossGate(r.Lost, v1alpha1.Blocker{
		ID:      blockLost,
		Message: fmt.Sprintf("rewriting objects at %s would lose or change fields for good", b.after.StorageVersion()),
		Resolve: "add the fields to the schema of the new storage version, remove them from the objects, or pass --allow-loss PATH or --accept FILE",
	})
	for _, d := range r.Appeared {
		b.warn("rewriting adds %s (a default of the new schema) in %s", d.Path, english.Plural(d.Objects, "object"))
	}
	if !r.Complete {
		b.warn("the rehearsal took a sample of %d of %s: --rehearse-all takes every one", r.Sampled, english.Plural(r.Total, "object"))
	}
	if b.state.Webhook() && (o.Conversion == nil || o.ConversionError != "") && !b.converted() {
		b.warn("objects are converted by a webhook: the rehearsal shows what the server refuses and prunes, not what the webhook loses")
	}
}

func objectName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

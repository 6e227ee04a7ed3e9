package plan

import (
	"fmt"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// blockVerify is the blocker of a plan that needs the proof which it does
// without.
const blockVerify = "verify-mode"

// VerifyModes returns what --verify takes, the default first.
func VerifyModes() []string {
	return []string{string(v1alpha1.VerifyFull), string(v1alpha1.VerifySample), string(v1alpha1.VerifyNone)}
}

// checkVerify refuses modes that do not exist: they may come from a file.
func (b *builder) checkVerify() error {
	switch b.intent.Verify {
	case "", v1alpha1.VerifyFull, v1alpha1.VerifySample, v1alpha1.VerifyNone:
		return nil
	}
	return inputErrorf("unknown mode %q for --verify: use one of %s", b.intent.Verify, join(VerifyModes()))
}

// VerifiesAll reports whether an intent has all objects verified, which the trim and
// the removal depend on (rule 3).
func VerifiesAll(intent v1alpha1.Intent) bool {
	return intent.Verify == "" || intent.Verify == v1alpha1.VerifyFull
}

func (b *builder) verifiesAll() bool { return VerifiesAll(b.intent) }

// verify plans the verify pass, and the trim where it proves enough.
func (b *builder) verify(storage string) {
	step := v1alpha1.Step{
		Action:     v1alpha1.ActionVerify,
		Version:    storage,
		Endpoint:   b.endpoint(),
		Title:      "verify that every object is current",
		Why:        "a no-op patch that leaves the resourceVersion unchanged proves that an object is persisted at the storage version",
		Objects:    b.objects(),
		Verify:     []v1alpha1.Check{{ID: "current", Description: "a whole pass found no object to rewrite and none that failed"}},
		Reversible: true,
	}
	if b.verifiesAll() {
		if b.inTree() {
			step.Why += "; an object that the server left behind is rewritten"
		}
		b.heldWrites(&step)
		b.add(step)
		b.trim(storage)
		b.deleteSVMs()
		return
	}
	if b.inTree() {
		// Facts 1 and 2: it trims by itself, whatever it left behind.
		b.block(v1alpha1.Blocker{
			ID:      blockVerify,
			Message: fmt.Sprintf("--verify=%s leaves what the server's own migration does unproven, which trims status.storedVersions by itself", b.intent.Verify),
			Resolve: "leave --verify out, or use --engine client",
		})
	}
	b.plan.Complete = false
	b.warn("--verify=%s proves nothing about all objects: status.storedVersions is not trimmed", b.intent.Verify)
	if b.intent.Verify == v1alpha1.VerifySample {
		step.Title = "verify a sample of about 500 objects"
		step.Objects = nil
		step.Verify[0].Description = "no object of the sample, every n-th of the list, had to be rewritten, and none failed"
		b.add(step)
	}
}

// onceVerified are the preconditions of what rests on the proof of this run.
func onceVerified() []v1alpha1.Precondition {
	return []v1alpha1.Precondition{
		{ID: "verified", Description: "the verify pass is complete and no object failed", Status: v1alpha1.PreconditionPending},
		{ID: "unchanged", Description: "UID, generation, storage version and stored versions are those that the migration started from", Status: v1alpha1.PreconditionPending},
	}
}

// record plans to note the proof in the CRD where there is nothing to trim and the
// list was not trusted: otherwise nobody could tell afterwards, and the next run would
// go over all objects again. A list that nothing speaks against is proven only where
// somebody asks for that.
func (b *builder) record(storage string) {
	if b.state.Trust.Trusted && (!b.intent.Force || b.state.Proven()) {
		return
	}
	b.add(v1alpha1.Step{
		Action:        v1alpha1.ActionRecord,
		Version:       storage,
		Title:         fmt.Sprintf("note in the CRD that every object is stored at %s", storage),
		Why:           fmt.Sprintf("status.storedVersions is %s already, so that no trim shows that it is true; the note lets it be trusted until it is written again", bracket([]string{storage})),
		Preconditions: onceVerified(),
		Marks:         lifecycle.VerifiedAnnotation,
		Changes: []v1alpha1.Change{{
			Path: fmt.Sprintf("metadata.annotations[%s]", lifecycle.VerifiedAnnotation),
			From: b.recordedBefore(),
			To:   fmt.Sprintf("%s, verified now, for the CRD's UID and generation", storage),
		}},
		Verify:     []v1alpha1.Check{{ID: "trusted", Description: "the annotation is in the CRD, and proves what it says"}},
		Reversible: true,
		Undo:       fmt.Sprintf("kubectl annotate crd %s %s-", b.state.CRD.Name, lifecycle.VerifiedAnnotation),
	})
}

// recordedBefore says what the annotation is that the record replaces.
func (b *builder) recordedBefore() string {
	if _, found := b.after.Annotations[lifecycle.VerifiedAnnotation]; !found {
		return ""
	}
	old, err := lifecycle.ReadVerified(b.after)
	if err != nil {
		return "one that proves nothing"
	}
	return fmt.Sprintf("%s, verified at %s", old.StorageVersion, when(old.At))
}

// verifyGate blocks a retirement that would trim or remove without the proof.
func (b *builder) verifyGate() {
	if b.verifiesAll() || b.intent.Verb != v1alpha1.VerbRetire || !b.has(v1alpha1.ActionRemove) && !b.has(v1alpha1.ActionCleanManagedFields) {
		return
	}
	b.block(v1alpha1.Blocker{
		ID: blockVerify,
		Message: fmt.Sprintf("--verify=%s proves nothing about all objects: %s cannot be removed without that proof",
			b.intent.Verify, b.intent.Version),
		Resolve: "leave --verify out, or stop before with --until " + string(v1alpha1.ActionVerify),
	})
}

// retry plans to send the objects of a failure report again. It proves nothing
// about the others, so that nothing is trimmed.
func (b *builder) retry() {
	b.block(b.mayMigrate()...)
	if b.endpoint() == "" {
		return
	}
	b.plan.Complete = false
	retry := b.intent.Retry
	storage, endpoint := b.after.StorageVersion(), b.endpoint()
	b.rehearse(b.state.Storage)
	b.barrier(storage, endpoint)
	objects := retry.Objects
	b.add(v1alpha1.Step{
		Action:   v1alpha1.ActionMigrate,
		Version:  storage,
		Endpoint: endpoint,
		Title:    fmt.Sprintf("send %s of %s again, with no-op patches through %s", english.Plural(objects, "object"), retry.From, b.by(endpoint)),
		Why:      "they could not be rewritten by an earlier run",
		Objects:  &objects,
		Verify:   []v1alpha1.Check{{ID: "all-named", Description: "every named object that is still there was rewritten or was current"}},

		Reversible: true,
	})
	b.warn("only the objects of a report are sent again: status.storedVersions is not trimmed; afterwards run %s", b.migrateCommand())
}

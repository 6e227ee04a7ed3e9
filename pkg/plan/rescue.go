package plan

import (
	"fmt"
	"slices"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/apiversion"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// rescue plans: every object readable and persisted at the storage version,
// where some are persisted at versions that spec.versions does not have (fact 1).
// The versions are added for as long as it takes.
func (b *builder) rescue() {
	missing := b.state.Lost()
	versions := append(lifecycle.Rescued(b.state.CRD), missing...)
	b.corruptGate()
	b.leaveAlone()
	if len(versions) == 0 {
		b.unreadGate()
		return
	}
	apiversion.Sort(versions)
	for _, version := range versions {
		if slices.Contains(missing, version) {
			b.addMissing(version)
		}
	}
	b.listStored(versions)
	b.showLosses(versions)
	b.rewrite()
	for _, version := range versions {
		b.cleanManagedFields(version)
	}
	for _, version := range versions {
		b.remove(version)
	}
	if len(missing) > 0 {
		b.warn("the server names what it cannot read a few at a time: if objects are stored at still other versions that are missing, " +
			"the run stops once these are there, and the next one adds those")
	}
}

// corruptGate blocks on objects that are not stored at a missing version: no list
// is complete with them, and so no proof.
func (b *builder) corruptGate() {
	corrupt := b.state.Observations.Corrupt
	if len(corrupt) == 0 || b.intent.Until == v1alpha1.ActionAdd || b.intent.Until == v1alpha1.ActionListStored {
		return
	}
	details := make([]string, 0, len(corrupt))
	for _, object := range corrupt {
		details = append(details, object.Name+": "+object.Message)
	}
	blocker := v1alpha1.Blocker{
		ID: blockCorrupt,
		Message: fmt.Sprintf("%s cannot be decoded at all: no version that is missing is the cause, and no version that is added helps",
			english.Plural(len(corrupt), "object")),
		Resolve: "bring the bytes of these keys back from a backup of etcd; nothing is deleted here",
		Details: details,
	}
	if len(b.state.Lost()) > 0 {
		blocker.Resolve += fmt.Sprintf("; until then, kubectl crdver rescue %s --until %s makes single objects readable that are stored at %s",
			b.state.CRD.Name, v1alpha1.ActionListStored, join(b.state.Lost()))
	}
	b.block(blocker)
}

// unreadGate blocks where nothing was found because nothing could be listed.
func (b *builder) unreadGate() {
	if why := b.state.Observations.ObjectsError; why != "" && len(b.state.Observations.Corrupt) == 0 {
		b.block(v1alpha1.Blocker{
			ID: blockUnread, Message: "whether objects are stored at a version that is missing is not known: " + why,
			Resolve: "put right what the message says and run again",
		})
	}
}

// addMissing adds a version again, unserved, and notes in the same patch that it
// is here for a rescue only.
func (b *builder) addMissing(version string) {
	entry := definition(version)
	b.tellLosses(version)
	b.after.Spec.Versions = append(b.after.Spec.Versions, entry)
	patch := AddVersion(entry)
	old := b.after.Annotations[lifecycle.RescuedAnnotation]
	names := version
	if old != "" {
		names = old + "," + version
	}
	patch.Body = append(patch.Body, Annotate(lifecycle.RescuedAnnotation, names))
	if b.after.Annotations == nil {
		b.after.Annotations = map[string]string{}
	}
	b.after.Annotations[lifecycle.RescuedAnnotation] = names
	b.add(v1alpha1.Step{
		Action:  v1alpha1.ActionAdd,
		Version: version,
		Title:   fmt.Sprintf("add %s to spec.versions again, unserved", version),
		Why: fmt.Sprintf("objects are stored at %s: with it they can be read again; its schema is %s: "+
			"nothing is dropped nor defaulted when an object is read, so that the schema of the storage version alone decides", version, keepsAll),
		Preconditions: []v1alpha1.Precondition{{
			ID: "absent", Description: fmt.Sprintf("%s is not in spec.versions", version), Status: v1alpha1.PreconditionMet,
		}},
		Patch: patch,
		Changes: []v1alpha1.Change{
			{Path: fmt.Sprintf("spec.versions[%s]", version), To: "served: false, storage: false, " + keepsAll},
			{Path: fmt.Sprintf("metadata.annotations[%s]", lifecycle.RescuedAnnotation), From: quote(old), To: quote(names)},
		},
		Verify: []v1alpha1.Check{{
			ID: "present", Description: fmt.Sprintf("%s is in spec.versions, and the CRD is accepted (NonStructuralSchema is not True)", version),
		}},
		Reversible: true,
		Undo:       "running rescue to its end removes it",
	})
}

// listStored makes status.storedVersions say the truth, so that the server keeps
// the versions in spec.versions until the objects are rewritten (fact 7).
func (b *builder) listStored(versions []string) {
	listed := b.listed()
	stored := slices.Clone(listed)
	for _, version := range versions {
		if !slices.Contains(stored, version) {
			stored = append(stored, version)
		}
	}
	if slices.Equal(stored, listed) {
		return
	}
	b.add(v1alpha1.Step{
		Action:   v1alpha1.ActionListStored,
		Version:  join(versions),
		Endpoint: b.endpoint(),
		Title:    fmt.Sprintf("add %s to status.storedVersions", join(versions)),
		Why:      "that list claims less than the truth; with it the server lets nobody remove the version before the objects are rewritten",
		Preconditions: []v1alpha1.Precondition{{
			ID: "present", Description: fmt.Sprintf("%s is in spec.versions", join(versions)), Status: b.pendingAdded(),
		}},
		Patch: StoredPatch(stored),
		Changes: []v1alpha1.Change{{
			Path: "status.storedVersions", From: bracket(listed), To: bracket(stored),
		}},
		Objects:    b.objects(),
		Verify:     []v1alpha1.Check{{ID: "readable", Description: "every object can be listed (LIST, all pages)"}},
		Reversible: true,
		Undo:       "the step trim takes it away again, with the proof that it may go",
	})
	b.after.Status.StoredVersions = stored
}

func (b *builder) pendingAdded() v1alpha1.PreconditionStatus {
	if b.has(v1alpha1.ActionAdd) {
		return v1alpha1.PreconditionPending
	}
	return v1alpha1.PreconditionMet
}

// showLosses plans the rehearsal. Only at the version that an object is persisted
// at does a read show what the storage version's schema lacks, and only a served
// version can be read at.
func (b *builder) showLosses(versions []string) {
	if b.intent.Unserved {
		b.warn("%s is not served for the rehearsal: fields that the schema of %s lacks are lost without being seen before", join(versions), b.state.Storage)
	} else {
		for _, version := range versions {
			b.serveAgain(version)
		}
	}
	b.rehearse(b.state.Storage)
	rehearsal := &b.plan.Steps[len(b.plan.Steps)-1]
	if status := &rehearsal.Preconditions[0].Status; *status == v1alpha1.PreconditionMet {
		// What was rehearsed while planning did not show what only these versions show.
		*status = v1alpha1.PreconditionPending
	}
	if !b.intent.Unserved {
		rehearsal.Why += fmt.Sprintf("; objects are compared as they are at %s and after the rewrite; where it ends the run, %[1]s is unserved at once",
			join(versions))
	}
	if why := b.state.Observations.LostConversion; why != "" {
		b.warn("the conversion webhook did not convert an object that was made up: %s", why)
	}
	if b.state.Webhook() {
		b.warn("objects are converted by a webhook: it has to know %s, or nothing can be read nor rewritten", join(versions))
	}
	for _, version := range versions {
		b.unserveAgain(version)
	}
}

// serveAgain serves a version for the rehearsal.
func (b *builder) serveAgain(version string) {
	if _, entry := b.index(version); entry.Served {
		b.warn("%s is still served for the rehearsal of an earlier run, and is unserved and removed by this one; if clients need it: %s",
			version, b.command("restore", version))
		return
	}
	step := b.serving(version, true)
	b.annotate(&step, lifecycle.RehearsalAnnotation(version), "served")
	if old := b.state.KubectlDefault; old != "" && apiversion.Compare(version, old) > 0 {
		b.warn("while %s is served for the rehearsal it is what kubectl uses by default, not %s (--serve=false does without)", version, old)
	}
	step.Title += " for the rehearsal"
	step.Why = fmt.Sprintf("read at %s, objects show everything that is stored; read at another version, only what that one's schema knows", version)
	step.Undo = "the step unserve"
	b.add(step)
}

// unserveAgain ends that. An ownerReference that names a version which is
// unserved makes the garbage collector delete the child (fact 16).
func (b *builder) unserveAgain(version string) {
	if _, entry := b.index(version); !entry.Served {
		return
	}
	step := b.serving(version, false)
	b.unmark(&step, lifecycle.RehearsalAnnotation(version))
	blockers := b.state.MayOrphan([]string{version}, b.intent.AllowOwnerReferences)
	for k := range blockers {
		blockers[k].Resolve += ", or --serve=false"
	}
	b.block(blockers...)
	step.Why = "it was served for the rehearsal only; nobody is to write at it while the objects are rewritten"
	if refs := b.state.Observations.References; refs != nil && len(refs.Unreadable) > 0 && !b.has(v1alpha1.ActionUnserve) {
		b.warn("ownerReferences could not be looked for in %s, which need a rescue too: the garbage collector cannot list them either",
			join(refs.Unreadable))
	}
	step.Preconditions = b.noReferences(version, blockers)
	b.add(step)
}

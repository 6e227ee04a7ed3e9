package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// serving begins a step after which a version is served, or not. Why, and what else
// there is to it, is the caller's.
func (b *builder) serving(version string, served bool) v1alpha1.Step {
	i, entry := b.index(version)
	entry.Served = served
	step := v1alpha1.Step{
		Version:    version,
		Patch:      jsonPatch("", testName(i, version), setFlag(i, "served", served)),
		Changes:    []v1alpha1.Change{flagChange(version, "served", served)},
		Reversible: true,
	}
	if served {
		step.Action, step.Title = v1alpha1.ActionServe, "serve "+version
		step.Verify = []v1alpha1.Check{{
			ID: "listed", Description: fmt.Sprintf("discovery has %s, and its objects can be listed", version),
		}}
		return step
	}
	step.Action, step.Title = v1alpha1.ActionUnserve, "stop serving "+version
	step.Verify = []v1alpha1.Check{
		{ID: "unlisted", Description: fmt.Sprintf("discovery no longer has %s", version)},
		{ID: "readable", Description: "the objects can be listed at the other versions"},
	}
	step.Undo = b.command("restore", version)
	return step
}

// isReference tells whether a blocker is about ownerReferences.
func isReference(blocker v1alpha1.Blocker) bool {
	return strings.HasPrefix(blocker.ID, "owner-references")
}

// noReferences is the precondition that no ownerReference names a version which is
// unserved (fact 16); none where that is allowed.
func (b *builder) noReferences(version string, blockers []v1alpha1.Blocker) []v1alpha1.Precondition {
	if b.intent.AllowOwnerReferences {
		return nil
	}
	status := v1alpha1.PreconditionUnknown
	switch {
	case slices.ContainsFunc(blockers, isReference):
		status = v1alpha1.PreconditionUnmet
	case b.state.Observations.References != nil:
		status = v1alpha1.PreconditionMet
	}
	return []v1alpha1.Precondition{{
		ID: "owner-references", Description: fmt.Sprintf("no ownerReference names %s", version), Status: status,
	}}
}

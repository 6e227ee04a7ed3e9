package plan

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// brownout plans: VERSION unserved for a time, and served again.
func (b *builder) brownout() error {
	version := b.intent.Version
	if b.state.Version(version) == nil {
		return b.unknownVersion(version)
	}
	if b.intent.Brownout == nil || b.intent.Brownout.For.Duration <= 0 || b.intent.Brownout.Repeat < 1 {
		return inputErrorf("a brownout takes a time that is longer than 0, once or more")
	}
	if b.endBrownout() {
		return nil
	}
	if _, entry := b.index(version); !entry.Served {
		return inputErrorf("%s is not served: a brownout would change nothing; to serve it: %s", version, b.command("restore", version))
	}
	blockers := b.state.MayUnserve(version, b.intent.AllowOwnerReferences)
	b.block(blockers...)
	b.brownoutStep(version, blockers)
	return nil
}

// brownoutStep adds the step that unserves the version and serves it again.
func (b *builder) brownoutStep(version string, blockers []v1alpha1.Blocker) {
	intent := b.intent.Brownout
	step := b.unserveStep(version, blockers)
	step.Action = v1alpha1.ActionBrownout
	step.Title = fmt.Sprintf("stop serving %s for %s, and serve it again", version, intent.For.Duration)
	if intent.Repeat > 1 && intent.Every != nil {
		step.Title += fmt.Sprintf("; %d times, one every %s", intent.Repeat, intent.Every.Duration)
	}
	step.Why = "clients of this version fail for that time, and show themselves"
	step.Changes = append(step.Changes, v1alpha1.Change{
		Path: fmt.Sprintf("metadata.annotations[%s]", lifecycle.BrownoutAnnotation),
		To:   fmt.Sprintf("since now, until %s later, so that any run can put it right", intent.For.Duration),
	}, v1alpha1.Change{
		Path: fmt.Sprintf("spec.versions[%s].served, at the end", version), From: "false", To: "true",
	}, v1alpha1.Change{
		Path: fmt.Sprintf("metadata.annotations[%s], at the end", lifecycle.BrownoutAnnotation), From: "until when",
	})
	step.Marks = lifecycle.BrownoutAnnotation
	step.Verify = append(step.Verify, v1alpha1.Check{
		ID: "listed", Description: fmt.Sprintf("at the end, discovery has %s again and its objects can be listed", version),
	})
	b.add(step)
}

// endBrownout serves a version again whose brownout was never ended; a brownout that
// is under way blocks. It reports whether there was one: that is all of the plan then,
// because how the version fares is to be seen while it is served.
func (b *builder) endBrownout() bool {
	found, err := lifecycle.ReadBrownout(b.state.CRD)
	switch {
	case err != nil:
		b.block(v1alpha1.Blocker{
			ID: lifecycle.BlockBrownout, Message: err.Error(),
			Resolve: fmt.Sprintf("look at the versions of the CRD, and kubectl annotate crd %s %s-", b.state.CRD.Name, lifecycle.BrownoutAnnotation),
		})
		return true
	case found == nil:
		return false
	case !b.overdue(found):
		b.block(v1alpha1.Blocker{
			ID: lifecycle.BlockBrownout, Message: lifecycle.DescribeBrownout(*found, b.state.Observations.Now),
			Resolve: "wait until it is over, or end it: " + b.command("restore", found.Version),
		})
		return true
	}
	b.warn("the brownout of %s by %s, which was to end at %s, was never ended: first it is served again", found.Version, found.By, when(found.Until))
	if i, entry := b.index(found.Version); i >= 0 && !entry.Served {
		b.serve(found.Version)
	}
	b.clear(found.Version, []string{lifecycle.BrownoutAnnotation}, v1alpha1.ActionServe)
	b.plan.Complete = false
	return true
}

// patchesOf counts how often a step patches the CRD.
func (b *builder) patchesOf(step v1alpha1.Step) int {
	switch {
	case step.Action == v1alpha1.ActionBrownout && b.intent.Brownout != nil:
		return 2 * b.intent.Brownout.Repeat // There and back.
	case step.Patch != nil, step.Marks != "":
		return 1
	}
	return 0
}

func (b *builder) overdue(found *v1alpha1.Brownout) bool {
	return b.state.Observations.BrownoutGone || b.state.Observations.Now.After(found.Until.Time)
}

// brownoutGate says of every other change that a version is not served only for a time.
func (b *builder) brownoutGate() {
	switch b.intent.Verb {
	case v1alpha1.VerbBrownout, v1alpha1.VerbRestore, v1alpha1.VerbRetire:
		return
	case v1alpha1.VerbPromote, v1alpha1.VerbMigrate, v1alpha1.VerbDeprecate, v1alpha1.VerbRescue:
	}
	if found, err := lifecycle.ReadBrownout(b.state.CRD); err == nil && found != nil {
		b.warn("%s; to serve it again: %s", lifecycle.DescribeBrownout(*found, b.state.Observations.Now), b.command("restore", found.Version))
	}
}

// NewSoak returns the annotation of a soak that starts, or that is made longer.
func NewSoak(version string, step v1alpha1.SoakStep, now time.Time) v1alpha1.Soak {
	soak := v1alpha1.Soak{Version: version, Phase: step.Phase, Since: metav1.Time{Time: now.UTC().Truncate(time.Second)}}
	if step.Since != nil {
		soak.Since = *step.Since
	}
	soak.Until = metav1.Time{Time: soak.Since.Add(step.Duration.Duration)}
	return soak
}

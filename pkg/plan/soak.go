package plan

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// blockSoak is the blocker of an annotation that cannot be believed.
const blockSoak = "soak"

// readSoak returns the soak of the version, and blocks where there is one that
// must not be passed over.
func (b *builder) readSoak(version string) (soak *v1alpha1.Soak, ok bool) {
	soak, err := lifecycle.ReadSoak(b.state.CRD)
	switch {
	case err != nil:
		b.block(v1alpha1.Blocker{
			ID: blockSoak, Message: err.Error() + ": how long the soak lasts is not known",
			Resolve: fmt.Sprintf("kubectl annotate crd %s %s- (the soak then starts anew with --soak), or %s",
				b.state.CRD.Name, lifecycle.SoakAnnotation, b.command("restore", version)),
		})
		return nil, false
	case soak != nil && soak.Version != version:
		b.block(v1alpha1.Blocker{
			ID: blockSoak, Message: fmt.Sprintf("%s soaks until %s: two versions cannot at a time", soak.Version, when(soak.Until)),
			Resolve: fmt.Sprintf("%s, or give that up: %s", b.command("retire", soak.Version), b.command("restore", soak.Version)),
		})
		return nil, false
	}
	return soak, true
}

func when(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }

// soakFor is how long to soak: what is asked for, or what an earlier run said, and
// never less than that.
func (b *builder) soakFor(soak *v1alpha1.Soak) time.Duration {
	var duration time.Duration
	if b.intent.Soak != nil {
		duration = b.intent.Soak.Duration
	}
	if soak != nil {
		duration = max(duration, soak.Until.Sub(soak.Since.Time))
	}
	return duration
}

// soakStarts puts the annotation into the step that was added last, and adds the
// step that waits. The plan ends there: the time is up in another run.
func (b *builder) soakStarts(version string, phase v1alpha1.SoakPhase, duration time.Duration) {
	step := b.soakStep(version, phase, duration)
	step.Soak.State = "starts with the step before"
	last := &b.plan.Steps[len(b.plan.Steps)-1]
	last.Marks, last.Soak = lifecycle.SoakAnnotation, step.Soak.DeepCopy()
	last.Soak.State = "starts with this step"
	last.Changes = append(last.Changes, soakChange(duration))
	b.add(step)
	b.plan.Complete = false
}

func soakChange(duration time.Duration) v1alpha1.Change {
	return v1alpha1.Change{
		Path: fmt.Sprintf("metadata.annotations[%s]", lifecycle.SoakAnnotation),
		To:   fmt.Sprintf("since now, until %s later", duration),
	}
}

// soakStep returns the step that waits.
func (b *builder) soakStep(version string, phase v1alpha1.SoakPhase, duration time.Duration) v1alpha1.Step {
	return v1alpha1.Step{
		Action:     v1alpha1.ActionSoak,
		Version:    version,
		Title:      fmt.Sprintf("let %s soak for %s, %s", version, duration, phase),
		Why:        "whoever still uses it has the time to be noticed; evidence of use that appears meanwhile starts the soak over",
		Soak:       &v1alpha1.SoakStep{Phase: phase, Duration: metav1.Duration{Duration: duration}},
		Verify:     []v1alpha1.Check{{ID: "time", Description: "a later run of the same command finds that the time is up, and goes on"}},
		Reversible: true,
		Undo:       b.command("restore", version),
	}
}

// soaking adds the step that waits where the version is in a phase already and the
// time is not up, and reports whether it has. Without a soak there is none.
func (b *builder) soaking(version string, phase v1alpha1.SoakPhase, soak *v1alpha1.Soak) bool {
	duration := b.soakFor(soak)
	if duration == 0 {
		return false
	}
	step := b.soakStep(version, phase, duration)
	now := b.state.Observations.Now
	state := step.Soak
	switch who := b.usedSince(soak); {
	case soak == nil || soak.Phase != phase:
		// Deprecated, unserved or served again by somebody else.
		state.State = "starts with this step"
	case who != "":
		state.State = "starts over: " + who
	default:
		until := metav1.Time{Time: soak.Since.Add(duration)}
		if now.After(until.Time) && !now.IsZero() {
			return false
		}
		state.Since, state.Until = &soak.Since, &until
		state.State = fmt.Sprintf("%s left, until %s", until.Sub(now).Round(time.Second), when(until))
		if until.Equal(&soak.Until) {
			b.soakWaits(step)
			return true
		}
	}
	step.Marks = lifecycle.SoakAnnotation
	step.Changes = []v1alpha1.Change{soakChange(duration)}
	if state.Since != nil {
		step.Changes[0].From, step.Changes[0].To = "until "+when(soak.Until), "until "+when(*state.Until)
	}
	b.soakWaits(step)
	return true
}

func (b *builder) soakWaits(step v1alpha1.Step) {
	b.add(step)
	b.plan.Complete = false
}

// usedSince returns who used the version since the soak began; a soak begins with
// what was known then.
func (b *builder) usedSince(soak *v1alpha1.Soak) string {
	usage := b.state.Observations.Usage
	if soak == nil || usage == nil || b.intent.AllowInUse {
		return ""
	}
	var who []string
	for _, e := range usage.Evidence {
		if e.Proves == v1alpha1.ProvesUse && !e.Stale && e.LastSeen != nil && soak.Since.Before(e.LastSeen) {
			who = append(who, describeEvidence(e))
		}
	}
	return strings.Join(who, "; ")
}

// clear removes annotations with the step that was added last, if that patches the
// CRD, or with a step of its own.
func (b *builder) clear(version string, keys []string, with v1alpha1.Action) {
	if len(keys) == 0 {
		return
	}
	if last := len(b.plan.Steps) - 1; last < 0 || b.plan.Steps[last].Action != with {
		b.clearStep(version, fmt.Sprintf("forget what was begun with %s", version), "what an earlier run noted would be taken up again")
	}
	b.clearing(keys)
}

// clearUnreadable removes annotations of which it is not known which version they
// are about.
func (b *builder) clearUnreadable(keys []string) {
	if len(keys) == 0 {
		return
	}
	b.clearStep(b.intent.Version, "remove "+join(keys)+", which cannot be read", "as long as it is there, no other run goes on")
	b.clearing(keys)
	for _, v := range b.after.Spec.Versions {
		if !v.Served {
			b.warn("%s cannot be read: it may have been about %s, which is not served; to serve it: %s", join(keys), v.Name, b.command("restore", v.Name))
		}
	}
}

func (b *builder) clearStep(version, title, why string) {
	b.add(v1alpha1.Step{
		Action: v1alpha1.ActionClear, Version: version, Title: title, Why: why,
		Patch: jsonPatch(""), Verify: []v1alpha1.Check{}, Reversible: true,
	})
}

// clearing makes the step that was added last remove annotations.
func (b *builder) clearing(keys []string) {
	step := &b.plan.Steps[len(b.plan.Steps)-1]
	for _, key := range keys {
		step.Patch.Body = append(step.Patch.Body, unannotate(key))
		step.Changes = append(step.Changes, v1alpha1.Change{
			Path: fmt.Sprintf("metadata.annotations[%s]", key), From: fmt.Sprintf("%q", b.after.Annotations[key]), // Not empty, if it is.
		})
	}
}

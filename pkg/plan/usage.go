package plan

import (
	"fmt"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// blockInUse is the blocker of a version that somebody uses.
const blockInUse = "in-use"

// asksAboutUse reports whether steps end the service of the intent's version, so
// that it matters who uses it.
func (b *builder) asksAboutUse() bool {
	return b.intent.UsageWindow != nil && (b.has(v1alpha1.ActionUnserve) || b.has(v1alpha1.ActionBrownout))
}

// usePrecondition is that of a step which ends the service of a version; none
// where use is not asked about.
func (b *builder) usePrecondition(version string) []v1alpha1.Precondition {
	if b.intent.UsageWindow == nil || b.intent.AllowInUse {
		return nil
	}
	status := v1alpha1.PreconditionUnknown
	switch u := b.state.Observations.Usage; {
	case u == nil:
	case u.Verdict == v1alpha1.UsageInUse:
		status = v1alpha1.PreconditionUnmet
	default:
		status = v1alpha1.PreconditionMet
	}
	return []v1alpha1.Precondition{{
		ID:          blockInUse,
		Description: fmt.Sprintf("no evidence that %s was used within %s, and nothing that acts by itself names it", version, b.intent.UsageWindow.Duration),
		Status:      status,
	}}
}

// useGate blocks while there is evidence of use, and says what could not be seen.
func (b *builder) useGate() {
	u := b.state.Observations.Usage
	if u == nil || !b.asksAboutUse() {
		return
	}
	for _, missing := range u.NotLooked {
		if !missing.Optional {
			b.warn("use of %s: %s was not wholly looked at: %s", u.Version, missing.Source, missing.Why)
		}
	}
	if u.Verdict != v1alpha1.UsageInUse {
		return
	}
	if b.intent.AllowInUse {
		b.warn("%s is in use (%s), and --allow-in-use lets its clients fail", u.Version, u.Why)
		return
	}
	blocker := v1alpha1.Blocker{
		ID:      blockInUse,
		Message: fmt.Sprintf("%s is in use: %s", u.Version, u.Why),
		Resolve: fmt.Sprintf("move these to another version (%s shows all), or pass --allow-in-use", b.command("usage", u.Version)),
	}
	if b.intent.Verb == v1alpha1.VerbRetire && !b.state.Version(u.Version).Deprecated {
		blocker.Resolve += "; to warn them first: " + b.command("deprecate", u.Version)
	}
	for _, e := range u.Evidence {
		if e.Proves == v1alpha1.ProvesCapability || e.Stale {
			continue
		}
		blocker.Details = append(blocker.Details, describeEvidence(e))
	}
	b.block(blocker)
}

// describeEvidence says a piece of evidence in a line.
func describeEvidence(e v1alpha1.UsageEvidence) string {
	text := fmt.Sprintf("%s %s: %s", e.WhoKind, e.Who, e.What)
	if e.Count > 0 {
		text += fmt.Sprintf(", %d %s", e.Count, e.CountOf)
	}
	if e.LastSeen != nil {
		text += ", last at " + e.LastSeen.UTC().Format(time.RFC3339)
	}
	return text + fmt.Sprintf(" (%s)", e.Source)
}

package printers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// writeBrownout says who failed, what else happened, and what was looked at.
func writeBrownout(t *textWriter, b *v1alpha1.BrownoutReport, version string) {
	if b == nil {
		return
	}
	for _, round := range b.Rounds {
		t.line(2, "%s was not served from %s for %s", version, round.Started.UTC().Format(time.RFC3339), round.Ended.Sub(round.Started.Time).String())
	}
	switch {
	case len(b.Rounds) == 0:
	case b.Gone:
		t.line(2, "%s is not to be served again: the CRD is not there any more", version)
	case b.Served:
		t.line(2, "%s is served again", version)
	default:
		t.line(2, "%s was NOT SERVED AGAIN", version)
	}
	for _, client := range b.Clients {
		agent := ""
		if client.Requests != nil {
			agent = client.Requests.UserAgent
		}
		t.line(2, "failed: %s %s, %s: %s, %s", client.WhoKind, client.Who, agent, countOf(client.Count, client.CountOf), client.What)
	}
	for _, effect := range b.Affected {
		t.line(2, "meanwhile: %s %s: %s", effect.Resource, effect.Name, effect.What)
	}
	if len(b.Rounds) > 0 && len(b.Clients)+len(b.Affected) == 0 {
		t.line(2, "nobody was seen to fail")
	}
	if len(b.Watched) > 0 {
		t.line(2, "watched: %s", strings.Join(b.Watched, ", "))
	}
	for _, missing := range b.NotWatched {
		t.line(2, "not watched: %s", missing)
	}
}

// writeContinue says how to go on, and how to go back.
func writeContinue(t *textWriter, report v1alpha1.Report) {
	switch {
	case report.Resume != "" && report.After != nil:
		t.line(2, "to continue after %s: %s", report.After.UTC().Format(time.RFC3339), report.Resume)
	case report.Resume != "":
		t.line(2, "to continue: %s", report.Resume)
	}
	if report.Back != "" {
		t.line(2, "the way back: %s", report.Back)
	}
}

// writeSoak says how it stands with a soak.
func writeSoak(t *textWriter, indent int, step v1alpha1.Step) {
	if step.Action == v1alpha1.ActionSoak && step.Soak != nil {
		t.line(indent, "state   %s", step.Soak.State)
	}
}

// rest says how to get the rest of a plan that does not reach its goal.
func rest(plan v1alpha1.Plan) string {
	for _, step := range plan.Steps {
		if step.Action == v1alpha1.ActionSoak {
			return fmt.Sprintf("The plan ends with the soak; run the same command again when the time is up%s.", leftOf(step))
		}
	}
	if EndsBrownout(plan) {
		return "The plan only ends a brownout; run again for the rest."
	}
	return fmt.Sprintf("The plan does not reach the whole goal; run again without %s for the rest.", narrowing(plan.Intent))
}

// EndsBrownout reports whether a plan for something else only serves a version again
// that a brownout left unserved.
func EndsBrownout(plan v1alpha1.Plan) bool {
	switch plan.Intent.Verb {
	case v1alpha1.VerbRetire, v1alpha1.VerbBrownout:
	default:
		return false
	}
	return !slices.ContainsFunc(plan.Steps, func(s v1alpha1.Step) bool {
		return s.Action != v1alpha1.ActionServe && s.Action != v1alpha1.ActionClear
	})
}

func leftOf(step v1alpha1.Step) string {
	if step.Soak == nil || step.Soak.Until == nil {
		return ""
	}
	return ", after " + step.Soak.Until.UTC().Format(time.RFC3339)
}

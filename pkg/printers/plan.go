package printers

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

// maxDetails is how many details of a blocker are shown; `-o json` has all.
const maxDetails = 10

// WritePlan writes a plan for people. Its lines are broken to fit a width; 0 leaves
// them as they are.
func WritePlan(w io.Writer, plan v1alpha1.Plan, width int) error {
	t := textWriter{width: width}
	crd, cluster := plan.Target.CRD, plan.Target.Cluster
	t.line(0, "Plan: %s", planTitle(plan))
	t.line(2, "cluster  %s", clusterName(cluster))
	t.line(2, "now      storage %s, storedVersions %s%s", crd.StorageVersion, list(crd.StoredVersions), about(cmp.Or(plan.Summary.Total, plan.Summary.Objects)))
	if e := plan.Engine; e != nil {
		t.line(2, "engine   %s (%s)", string(e.Name), e.Reason)
	}
	if len(plan.Steps) == 0 && len(plan.Blockers) == 0 {
		t.line(0, "Nothing to do.")
	}
	for i, step := range plan.Steps {
		t.line(0, "")
		writeStep(&t, i+1, len(strconv.Itoa(len(plan.Steps))), step)
	}
	writeRehearsal(&t, plan)
	for i, warning := range plan.Warnings {
		if i == 0 {
			t.line(0, "")
		}
		t.line(0, "Warning: %s", warning)
	}
	writeBlockers(&t, plan.Blockers)
	writeSummary(&t, plan)
	if _, err := io.WriteString(w, t.String()); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	return nil
}

// planTitle returns "promote v1 of crontabs.stable.example.com".
func planTitle(plan v1alpha1.Plan) string {
	words := string(plan.Intent.Verb)
	if plan.Intent.Version != "" {
		words += " " + plan.Intent.Version + " of"
	}
	return words + " " + plan.Target.CRD.Name
}

func clusterName(c v1alpha1.ClusterIdentity) string {
	if c.Context == "" {
		return c.Server
	}
	return fmt.Sprintf("%s (context %s)", c.Server, c.Context)
}

func list(names []string) string { return "[" + strings.Join(names, ", ") + "]" }

func about(objects *int64) string {
	if objects == nil {
		return ""
	}
	return ", " + english.Plural(*objects, "object")
}

// writeStep writes a step; its number takes width columns, so that what follows is
// below the title in a plan of ten steps, too.
func writeStep(t *textWriter, number, width int, step v1alpha1.Step) {
	below := 4 + width
	mark := ""
	if !step.Reversible {
		mark = "  (cannot be undone)"
	}
	t.line(2, "%*d. %s%s", width, number, step.Title, mark)
	t.line(below, "why     %s", step.Why)
	for _, change := range step.Changes {
		switch {
		case change.From == "":
			t.line(below, "+ %s: %s", change.Path, change.To)
		case change.To == "":
			t.line(below, "- %s: %s", change.Path, change.From)
		default:
			t.line(below, "~ %s: %s -> %s", change.Path, change.From, change.To)
		}
	}
	writeSoak(t, below, step)
	for _, p := range step.Preconditions {
		t.line(below, "before  %s (%s)", p.Description, string(p.Status))
	}
	for _, check := range step.Verify {
		t.line(below, "after   %s", check.Description)
	}
	if step.Undo != "" {
		t.line(below, "undo    %s", step.Undo)
	}
}

// writeRehearsal says what came of the rehearsal, or who makes it: before a version is
// served there is nothing to rehearse, and a client dry run sends nothing.
func writeRehearsal(t *textWriter, plan v1alpha1.Plan) {
	r := plan.Summary.Rehearsal
	if r == nil {
		at := slices.IndexFunc(plan.Steps, func(s v1alpha1.Step) bool { return s.Action == v1alpha1.ActionRehearse })
		if at >= 0 && len(plan.Blockers) == 0 {
			t.line(0, "")
			t.line(0, "Rehearsal: not made yet; step %d makes it, and the run ends there if objects would be refused or fields lost", at+1)
		}
		return
	}
	t.line(0, "")
	t.line(0, "Rehearsal: %d of %s, %d refused, %s lost or changed, %d added by defaults",
		r.Sampled, english.Plural(r.Total, "object"), r.RefusedCount, english.Plural(len(r.Lost), "field path"), len(r.Appeared))
	if c := r.Conversion; c != nil {
		t.line(0, "Conversion webhook: %d of %s sent from %s to %s and back, %s lost or changed",
			c.Sampled, english.Plural(c.Total, "object"), strings.Join(c.From, " and "), c.To, english.Plural(len(c.Lost), "field path"))
	}
}

func writeBlockers(t *textWriter, blockers []v1alpha1.Blocker) {
	for i, b := range blockers {
		if i == 0 {
			t.line(0, "")
		}
		t.line(0, "Blocked: %s", b.Message)
		for j, detail := range b.Details {
			if j == maxDetails {
				t.line(4, "... and %d more (-o json lists them)", len(b.Details)-j)
				break
			}
			t.line(4, "%s", detail)
		}
		if b.Resolve != "" {
			t.line(2, "to resolve: %s", b.Resolve)
		}
	}
}

func writeSummary(t *textWriter, plan v1alpha1.Plan) {
	if len(plan.Steps) == 0 {
		if !plan.Complete && plan.Applyable && plan.Intent.Until != "" {
			t.line(0, "Something is left to do after that step; run again without --until for the rest.")
		}
		return
	}
	s := plan.Summary
	t.line(0, "")
	line := fmt.Sprintf("%s, %s of the CRD", english.Plural(s.Steps, "step"), english.Plural(s.CRDPatches, "patch"))
	switch {
	case s.Objects != nil && s.Total != nil:
		line += fmt.Sprintf(", about %d of %s", *s.Objects, english.Plural(*s.Total, "object"))
	case s.Objects != nil:
		line += ", about " + english.Plural(*s.Objects, "object")
	}
	if len(s.Irreversible) > 0 {
		line += "; cannot be undone: " + strings.Join(s.Irreversible, ", ")
	}
	t.line(0, "%s", line)
	if plan.Hold != "" {
		t.line(0, "Meanwhile, the annotation %s of the CRD says who is at work and how far; it is removed at the end.", plan.Hold)
	}
	if !plan.Complete {
		t.line(0, "%s", rest(plan))
	}
}

// narrowing names the flags that may have cut a plan short.
func narrowing(intent v1alpha1.Intent) string {
	switch {
	case intent.Retry != nil:
		return "--retry-from"
	case intent.Verify != "" && intent.Verify != v1alpha1.VerifyFull:
		return "--verify=" + string(intent.Verify)
	}
	var flags []string
	for _, flag := range []struct {
		name string
		set  bool
	}{{"--until", intent.Until != ""}, {"--namespace", intent.Namespace != ""}, {"--selector", intent.Selector != ""}, {"--shard", intent.Shard != ""}} {
		if flag.set {
			flags = append(flags, flag.name)
		}
	}
	if len(flags) == 0 {
		return "--until, --namespace, --selector or --shard"
	}
	return strings.Join(flags, " and ")
}

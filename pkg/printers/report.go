package printers

import (
	"fmt"
	"io"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

// WriteReport writes what came of a plan for people. Its first line is the one
// that scripts look for: "customresourcedefinition.apiextensions.k8s.io/NAME promoted".
// Lines that may be long are broken to fit a width; 0 leaves them as they are.
func WriteReport(w io.Writer, report v1alpha1.Report, width int) error {
	t := textWriter{width: width}
	name := "customresourcedefinition.apiextensions.k8s.io/" + report.Target.CRD.Name
	t.line(0, "%s %s", name, reportVerb(report))
	if report.Outcome != v1alpha1.OutcomeUnchanged {
		t.line(2, "storage version %s, storedVersions %s", report.StorageVersion, list(report.StoredVersions))
	}
	for _, step := range report.Steps {
		if step.Message != "" && step.Outcome == v1alpha1.OutcomeDone {
			t.line(2, "%s: %s", step.ID, step.Message)
		}
		if step.Objects != nil {
			t.line(2, "%s: %s", step.ID, Counts(*step.Objects))
		}
		writeFailures(&t, step)
	}
	if e := report.Evidence; e != nil && e.Complete {
		t.line(2, "proof: pass %d over %s found every one stored at %s (CRD generation %d)",
			e.Passes, english.Plural(e.Objects.Listed, "object"), e.StorageVersion, e.Generation)
	}
	if report.Message != "" {
		t.line(2, "stopped: %s", report.Message)
	}
	if left := notRun(report.Steps); len(left) > 0 {
		t.line(2, "not run: %s", strings.Join(left, ", "))
	}
	writeBrownout(&t, report.Brownout, report.Intent.Version)
	writeContinue(&t, report)
	if _, err := io.WriteString(w, t.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func notRun(steps []v1alpha1.StepReport) []string {
	var left []string
	for _, step := range steps {
		if step.Outcome == v1alpha1.OutcomeNotRun {
			left = append(left, step.ID)
		}
	}
	return left
}

// reportVerb returns "promoted to v1", "unchanged", "partly promoted to v1".
func reportVerb(report v1alpha1.Report) string {
	done := map[v1alpha1.Verb]string{
		v1alpha1.VerbPromote: "promoted to ", v1alpha1.VerbRetire: "retired ", v1alpha1.VerbDeprecate: "deprecated ",
		v1alpha1.VerbRestore: "restored ", v1alpha1.VerbMigrate: "migrated", v1alpha1.VerbRescue: "rescued",
		v1alpha1.VerbBrownout: "served again, after a brownout of ",
	}[report.Intent.Verb] + report.Intent.Version
	if report.Intent.Undo {
		done = "no longer deprecates " + report.Intent.Version
	}
	switch report.Outcome {
	case v1alpha1.OutcomeDone:
		if report.Intent.Verb == v1alpha1.VerbBrownout && report.Brownout == nil {
			return "served again as before an earlier brownout; that of " + report.Intent.Version + " is yet to be made"
		}
		if report.Resume != "" {
			return "partly " + done
		}
		return done
	case v1alpha1.OutcomeUnchanged:
		return "unchanged"
	case v1alpha1.OutcomePartial:
		return "partly " + done
	case v1alpha1.OutcomeRefused, v1alpha1.OutcomeFailed, v1alpha1.OutcomeInterrupted, v1alpha1.OutcomeNotRun:
		if b := report.Brownout; b != nil && b.Served && len(b.Rounds) > 0 {
			return fmt.Sprintf("%s that ended early (%s)", done, report.Outcome)
		}
		return fmt.Sprintf("not %s (%s)", done, report.Outcome)
	}
	return string(report.Outcome)
}

// Counts returns "200 objects: 150 rewritten, 50 already current".
func Counts(c v1alpha1.ObjectCounts) string {
	var parts []string
	for _, part := range []struct {
		n    int64
		what string
	}{
		{c.Rewritten, "rewritten"},
		{c.Current, "already current"},
		{c.Changed, "changed meanwhile"},
		{c.Deleted, "deleted meanwhile"},
		{c.Refused, "refused"},
		{c.Failed, "failed"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	line := english.Plural(c.Listed, "object")
	if len(parts) > 0 {
		line += ": " + strings.Join(parts, ", ")
	}
	if c.ManagersLost > 0 {
		line += fmt.Sprintf(", of which %d lost managers in metadata.managedFields", c.ManagersLost)
	}
	if c.Retries > 0 {
		line += fmt.Sprintf(" (%s sent again)", english.Plural(c.Retries, "request"))
	}
	return line
}

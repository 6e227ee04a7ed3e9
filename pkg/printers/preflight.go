package printers

import (
	"fmt"
	"io"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

// WritePreflight writes for people what applying manifests would do: a line with
// the verdict for each CRD, what has to be done first, and the findings.
func WritePreflight(w io.Writer, report *v1alpha1.PreflightReport, rules map[string]v1alpha1.Rule, wide bool) error {
	var out strings.Builder
	for i, item := range report.Items {
		if i > 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "%s: %s\n", Escape(item.CRD), VerdictText(item))
		for n, step := range item.Steps {
			fmt.Fprintf(&out, "  %d. %s\n", n+1, Escape(step))
		}
		for _, step := range item.AfterSteps {
			fmt.Fprintf(&out, "  then: %s\n", Escape(step))
		}
		if o := item.Objects; o != nil {
			fmt.Fprintf(&out, "  %s\n", objectsLine(*o))
		}
		if why, unknown := strings.CutPrefix(item.ServerDryRun, "unknown: "); unknown {
			fmt.Fprintf(&out, "  the server dry run said nothing: %s\n", Escape(why))
		}
		for _, finding := range item.Findings {
			var one strings.Builder
			writeFinding(&one, finding, rules, wide)
			for line := range strings.Lines(one.String()) {
				out.WriteString("  " + line)
			}
		}
		if item.Existing > 0 {
			fmt.Fprintf(&out, "  %s left out that %s there before (--all)\n", english.Plural(item.Existing, "finding"), were(item.Existing))
		}
	}
	if len(report.Items) > 0 {
		fmt.Fprintf(&out, "\n%s\n", SummaryLine(report.Summary))
	}
	return written(io.WriteString(w, out.String()))
}

func were(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// VerdictText returns the verdict of an item and what it is about in a few words.
func VerdictText(item v1alpha1.Preflight) string {
	text := string(item.Verdict)
	switch item.Verdict {
	case v1alpha1.VerdictOKAfter:
		text = "ok after " + english.Plural(len(item.Steps), "step")
	case v1alpha1.VerdictOK, v1alpha1.VerdictBreaks, v1alpha1.VerdictRefused, v1alpha1.VerdictUnknown:
	}
	if item.Change == "create" {
		text += " (new)"
	}
	return text
}

func objectsLine(o v1alpha1.ObjectsChecked) string {
	if o.Checked == 0 && !o.Complete {
		line := "no object was held against the new schema"
		if o.Error != "" {
			line += ": " + Escape(o.Error)
		}
		return line
	}
	line := fmt.Sprintf("%s held against the new schema", english.Plural(o.Checked, "object"))
	switch {
	case o.Total != nil && !o.Complete:
		line = fmt.Sprintf("%d of %s held against the new schema", o.Checked, english.Plural(*o.Total, "object"))
	case !o.Complete:
		line += ", not all"
	}
	if o.Error != "" {
		line += fmt.Sprintf(" (%s)", Escape(o.Error))
	}
	if o.Invalid == 0 && o.Pruned == 0 {
		return line + ": all fit"
	}
	return fmt.Sprintf("%s: %d not valid, %d would lose fields", line, o.Invalid, o.Pruned)
}

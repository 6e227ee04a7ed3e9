package printers

import (
	"fmt"
	"io"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
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
			fmt.Fprintf(&out, "  %s left out that %s there before (--all)\n", Plural(item.Existing, "finding"), were(item.Existing))
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
		text = "ok after " + Plural(len(item.Steps), "step")
	case v1alpha1.VerdictOK, v1alpha1.VerdictBreaks, v1alpha1.VerdictRefused, v1alpha1.VerdictUnknown:
	}
	if item.Change == "create" {
		text += " (new)"
	}
	return text
}

func objectsLine(o v1alpha1.ObjectsChecked) string {
	line := fmt.Sprintf("%s held against the new schema", Plural(int(o.Checked), "object"))
	switch {
	case o.Total != nil && !o.Complete:
		line = fmt.Sprintf("%d of %s held against the new schema", o.Checked, Plural(int(*o.Total), "object"))
	case !o.Complete:
		line += ", not all"
	}
	if o.Invalid == 0 && o.Pruned == 0 {
		return line + ": all fit"
	}
	return fmt.Sprintf("%s: %d not valid, %d would lose fields", line, o.Invalid, o.Pruned)
}

// WriteMarkdown writes the answer for a comment of a pull request.
func WriteMarkdown(w io.Writer, report *v1alpha1.PreflightReport) error {
	var out strings.Builder
	out.WriteString("### CRD preflight\n\n")
	if len(report.Items) == 0 {
		out.WriteString("No CustomResourceDefinition.\n")
		return written(io.WriteString(w, out.String()))
	}
	out.WriteString("| CRD | verdict | errors | warnings |\n|---|---|---|---|\n")
	for _, item := range report.Items {
		errors, warnings := 0, 0
		for _, f := range item.Findings {
			switch {
			case f.Suppressed != nil:
			case f.Severity == v1alpha1.SeverityError:
				errors++
			case f.Severity == v1alpha1.SeverityWarning:
				warnings++
			}
		}
		fmt.Fprintf(&out, "| %s | **%s** | %d | %d |\n", markdownCode(item.CRD), VerdictText(item), errors, warnings)
	}
	for _, item := range report.Items {
		if len(item.Findings) == 0 && len(item.Steps) == 0 && len(item.AfterSteps) == 0 {
			continue
		}
		fmt.Fprintf(&out, "\n#### %s: %s\n", markdownCode(item.CRD), VerdictText(item))
		if len(item.Steps) > 0 {
			out.WriteString("\nBefore applying the manifest:\n\n")
			for n, step := range item.Steps {
				fmt.Fprintf(&out, "%d. %s\n", n+1, markdownCode(step))
			}
		}
		if len(item.AfterSteps) > 0 {
			out.WriteString("\nAfterwards:\n\n")
			for n, step := range item.AfterSteps {
				fmt.Fprintf(&out, "%d. %s\n", n+1, markdownCode(step))
			}
		}
		if len(item.Findings) > 0 {
			out.WriteString("\n")
		}
		for _, f := range item.Findings {
			if f.Suppressed != nil {
				continue
			}
			where := ""
			if l := f.Location; l != nil && l.Line > 0 {
				where = fmt.Sprintf(" (%s)", markdownCode(fmt.Sprintf("%s:%d", l.File, l.Line)))
			}
			fmt.Fprintf(&out, "- **%s** %s%s: %s\n", f.Severity, markdownCode(f.Rule), where, markdownText(f.Message))
			if f.Fix != "" {
				fmt.Fprintf(&out, "  %s\n", markdownText(f.Fix))
			}
		}
	}
	return written(io.WriteString(w, out.String()))
}

// markdownText escapes what Markdown and HTML would read in untrusted text, and
// mentions of people.
func markdownText(text string) string {
	var out strings.Builder
	for _, r := range Escape(text) {
		switch r {
		case '\\', '`', '*', '_', '{', '}', '[', ']', '#', '|', '~', '!':
			out.WriteRune('\\')
			out.WriteRune(r)
		case '<':
			out.WriteString("&lt;")
		case '>':
			out.WriteString("&gt;")
		case '&':
			out.WriteString("&amp;")
		case '@':
			out.WriteString("&#64;")
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// markdownCode returns untrusted text as code.
func markdownCode(text string) string {
	text = strings.ReplaceAll(Escape(text), "|", `\|`)
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + text + " " + fence
	}
	return fence + text + fence
}

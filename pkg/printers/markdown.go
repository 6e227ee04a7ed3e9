package printers

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

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
		fmt.Fprintf(&out, "| %s | **%s** | %d | %d |\n", markdownCell(item.CRD), VerdictText(item), errors, warnings)
	}
	for _, item := range report.Items {
		findings := slices.DeleteFunc(slices.Clone(item.Findings), func(f v1alpha1.Finding) bool { return f.Suppressed != nil })
		if len(findings) == 0 && len(item.Steps) == 0 && len(item.AfterSteps) == 0 {
			continue
		}
		fmt.Fprintf(&out, "\n#### %s: %s\n", markdownCode(item.CRD), VerdictText(item))
		writeMarkdownSteps(&out, "Before applying the manifest:", item.Steps)
		writeMarkdownSteps(&out, "Afterwards:", item.AfterSteps)
		if len(findings) > 0 {
			out.WriteString("\n")
		}
		for _, f := range findings {
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

func writeMarkdownSteps(out *strings.Builder, title string, steps []string) {
	if len(steps) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n\n", title)
	for n, step := range steps {
		fmt.Fprintf(out, "%d. %s\n", n+1, markdownCode(step))
	}
}

// markdownText escapes what Markdown and HTML would read in untrusted text, and
// mentions of people and issues: GitHub looks for those after it has read the
// Markdown, so that only a character in between (of no width) keeps them away.
func markdownText(text string) string {
	var out strings.Builder
	for _, r := range Escape(text) {
		switch r {
		case '\\', '`', '*', '_', '{', '}', '[', ']', '|', '~', '!', '$':
			out.WriteRune('\\')
			out.WriteRune(r)
		case '<':
			out.WriteString("&lt;")
		case '>':
			out.WriteString("&gt;")
		case '&':
			out.WriteString("&amp;")
		case '@', '#':
			out.WriteRune(r)
			out.WriteString("&#8203;")
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// markdownCode returns untrusted text as code.
func markdownCode(text string) string {
	if text == "" {
		return ""
	}
	text = Escape(text)
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + text + " " + fence
	}
	return fence + text + fence
}

// markdownCell returns untrusted text as code in a cell of a table, which ends
// at a bar even in code.
func markdownCell(text string) string {
	return strings.ReplaceAll(markdownCode(text), "|", `\|`)
}

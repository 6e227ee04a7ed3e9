package printers

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

// maxSnippet bounds the line of a manifest that is shown with a finding.
const maxSnippet = 120

// WriteFindings writes the findings for people: place, severity, message and
// rule on one line, as compilers do, the offending line of a manifest, and what
// to do. wide adds why the rule is there. rules are by id.
func WriteFindings(w io.Writer, report *v1alpha1.ValidationReport, rules map[string]v1alpha1.Rule, wide bool) error {
	var out strings.Builder
	for _, finding := range report.Findings {
		writeFinding(&out, finding, rules, wide)
	}
	fmt.Fprintf(&out, "%s\n", SummaryLine(report.Summary))
	return written(io.WriteString(w, out.String()))
}

// SummaryLine returns the counts of findings in words.
func SummaryLine(s v1alpha1.FindingSummary) string {
	line := english.Plural(s.CRDs, "CRD") + ": "
	var counts []string
	for _, count := range []struct {
		n    int
		what string
	}{{s.Errors, "error"}, {s.Warnings, "warning"}, {s.Infos, "info"}} {
		switch {
		case count.n == 0:
		case count.what == "info":
			counts = append(counts, fmt.Sprintf("%d info", count.n))
		default:
			counts = append(counts, english.Plural(count.n, count.what))
		}
	}
	if len(counts) == 0 {
		counts = append(counts, "no findings")
	}
	line += strings.Join(counts, ", ")
	if s.Suppressed > 0 {
		line += fmt.Sprintf(" (%d suppressed)", s.Suppressed)
	}
	return line
}

func writeFinding(out *strings.Builder, f v1alpha1.Finding, rules map[string]v1alpha1.Rule, wide bool) {
	if f.Suppressed != nil && !wide {
		return
	}
	severity := string(f.Severity)
	if f.Suppressed != nil {
		severity = "suppressed " + severity
	}
	fmt.Fprintf(out, "%s: %s: %s [%s]\n", place(f), severity, Escape(f.Message), f.Rule)
	writeSnippet(out, f.Location)
	if f.Suppressed != nil {
		if f.Suppressed.Reason != "" {
			fmt.Fprintf(out, "    ignored: %s\n", Escape(f.Suppressed.Reason))
		}
		return
	}
	if wide && rules[f.Rule].Why != "" {
		fmt.Fprintf(out, "    why: %s\n", rules[f.Rule].Why)
	}
	if f.Fix != "" {
		fixable := ""
		if f.Fixable {
			fixable = " (--fix does it)"
		}
		fmt.Fprintf(out, "    fix: %s%s\n", Escape(f.Fix), fixable)
	}
}

// place returns "file:line:column: crd", or the CRD and the field of a live one.
func place(f v1alpha1.Finding) string {
	l := f.Location
	if l == nil {
		return joinPath(Escape(f.CRD), Escape(f.Path))
	}
	where := Escape(l.File)
	if l.Line > 0 {
		where += fmt.Sprintf(":%d", l.Line)
	}
	if l.Column > 0 {
		where += fmt.Sprintf(":%d", l.Column)
	}
	if l.Line == 0 {
		// What a kustomization builds has no lines.
		where += ": " + joinPath(Escape(f.CRD), Escape(f.Path))
	}
	return where
}

func joinPath(crd, path string) string {
	if path == "" {
		return crd
	}
	return crd + " " + path
}

// writeSnippet shows the line of a manifest and where in it the field is.
func writeSnippet(out *strings.Builder, l *v1alpha1.Location) {
	if l == nil || l.Line == 0 || strings.TrimSpace(l.Text) == "" {
		return
	}
	text, column := Escape(l.Text), l.Column
	if text != l.Text || utf8.RuneCountInString(text) > maxSnippet {
		// What was escaped or cut has other columns.
		column = 0
		if runes := []rune(text); len(runes) > maxSnippet {
			text = string(runes[:maxSnippet]) + ellipsis
		}
	}
	number := fmt.Sprintf("%5d | ", l.Line)
	fmt.Fprintf(out, "%s%s\n", number, text)
	if column > 0 {
		fmt.Fprintf(out, "%s| %s^\n", strings.Repeat(" ", len(number)-len("| ")), strings.Repeat(" ", column-1))
	}
}

// written gives an error of a writer its context.
func written(_ int, err error) error {
	if err != nil {
		return fmt.Errorf("writing the findings: %w", err)
	}
	return nil
}

package printers_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

// TestGitHubCommands reads each command as the runner does: the name, properties
// separated by commas, and a message that ends with the line.
func TestGitHubCommands(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"100%":         "100%25",
		"%0A":          "%250A",
		"a\nb":         "a%0Ab",
		"a\r\nb":       "a%0Ab",
		"a\rb":         `a\rb`,
		"a:b,c":        "a:b,c",
		"::error::x":   "::error::x",
		"\x1b[31mred":  "^[[31mred",
		"\u202eabc":    `\u202eabc`,
		"bad \xff end": `bad \xff end`,
	} {
		finding := v1alpha1.Finding{
			Rule: "r", Severity: v1alpha1.SeverityInfo, CRD: "c", Message: text,
			Location: &v1alpha1.Location{File: text, Line: 7, Column: 9},
		}
		var out bytes.Buffer
		if err := printers.WriteGitHub(&out, []v1alpha1.Finding{finding}); err != nil {
			t.Fatal(err)
		}
		file := strings.NewReplacer(":", "%3A", ",", "%2C").Replace(want)
		if line := "::notice file=" + file + ",line=7,col=9,title=r::c: " + want + "\n"; out.String() != line {
			t.Errorf("%q:\n got %q\nwant %q", text, out.String(), line)
		}
	}
}

// TestGitHubOneLineEach says that every finding that counts is one command, and
// that there is nothing else.
func TestGitHubOneLineEach(t *testing.T) {
	t.Parallel()
	report := read[v1alpha1.ValidationReport](t, "findings.yaml")
	var out bytes.Buffer
	if err := printers.WriteGitHub(&out, report.Findings); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if want := len(report.Findings) - 1; len(lines) != want { // One is suppressed.
		t.Errorf("%d lines, want %d", len(lines), want)
	}
	for _, line := range lines {
		command, _, found := strings.Cut(strings.TrimPrefix(line, "::"), "::")
		name, properties, _ := strings.Cut(command, " ")
		if !found || name != "error" && name != "warning" && name != "notice" {
			t.Errorf("%q is the command %q", line, name)
		}
		for _, property := range strings.Split(properties, ",") {
			switch key, value, _ := strings.Cut(property, "="); {
			case key != "file" && key != "line" && key != "col" && key != "title", value == "", strings.ContainsAny(value, ":,"):
				t.Errorf("%q has the property %q", line, property)
			}
		}
	}
}

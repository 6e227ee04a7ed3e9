package printers_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

// TestMarkdownEscapes puts each thing that Markdown reads into a message.
func TestMarkdownEscapes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a | b":                      `a \| b`,
		"`code`":                     "\\`code\\`",
		"<b>&amp;":                   "&lt;b&gt;&amp;amp;",
		"@octocat and #12":           "@&#8203;octocat and #&#8203;12",
		"[x](https://example.com)":   `\[x\](https://example.com)`,
		"![x](y)":                    `\!\[x\](y)`,
		"*a* _b_ ~c~ $d$ {e}":        `\*a\* \_b\_ \~c\~ \$d\$ \{e\}`,
		"one\n\n# two":               `one\\n\\n#&#8203; two`,
		`back\slash`:                 `back\\slash`,
		"spec.versions[*].name":      `spec.versions\[\*\].name`,
		"plain text, nothing to do.": "plain text, nothing to do.",
	} {
		report := &v1alpha1.PreflightReport{Items: []v1alpha1.Preflight{{
			CRD: "crontabs.example.com", Verdict: v1alpha1.VerdictBreaks,
			Findings: []v1alpha1.Finding{{Rule: "r", Severity: v1alpha1.SeverityError, Message: text}},
		}}}
		var out bytes.Buffer
		if err := printers.WriteMarkdown(&out, report); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(out.String(), "- **error** `r`: "+want+"\n") {
			t.Errorf("%q becomes %q, want %q", text, out.String(), want)
		}
	}
}

// TestMarkdownCode says that no text ends the code that it is shown as, nor the
// cell of the table that it is in.
func TestMarkdownCode(t *testing.T) {
	t.Parallel()
	bar := regexp.MustCompile(`[^\\]\|`)
	for _, name := range []string{"a|b", "`", "``a`", "`|`", "a`b``c", "x\ny", ""} {
		report := &v1alpha1.PreflightReport{Items: []v1alpha1.Preflight{{CRD: name, Verdict: v1alpha1.VerdictOKAfter, Steps: []string{name}}}}
		var out bytes.Buffer
		if err := printers.WriteMarkdown(&out, report); err != nil {
			t.Fatal(err)
		}
		row := ""
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, "ok after") && strings.HasPrefix(line, "|") {
				row = strings.TrimSpace(line)
			}
		}
		if bars := len(bar.FindAllString("|"+row, -1)); bars != 5 {
			t.Errorf("%q: the row has %d cells: %s", name, bars-1, row)
		}
		step := out.String()[strings.LastIndex(out.String(), "1. ")+3:]
		if fence := step[:len(step)-len(strings.TrimLeft(step, "`"))]; name != "" && strings.Count(step, fence) != 2 {
			t.Errorf("%q: the code ends too soon: %s", name, step)
		}
	}
}

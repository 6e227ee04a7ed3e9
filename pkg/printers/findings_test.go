package printers_test

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/goldenfile"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

var update = flag.Bool("update", false, "write what the printers print into testdata/formats")

const formats = "../../testdata/formats"

// read reads one of the documents that the printers are tested with.
func read[T any](t *testing.T, name string) *T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(formats, name))
	if err != nil {
		t.Fatal(err)
	}
	into := new(T)
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func rules() []v1alpha1.Rule {
	return []v1alpha1.Rule{
		{ID: "deprecated-without-message", Severity: v1alpha1.SeverityInfo, Summary: "a deprecated version has no message", Why: "Clients are not told.", Fix: "Write one."},
		{ID: "migration-pending", Severity: v1alpha1.SeverityWarning, Summary: "objects may be stored at another version", Why: "It cannot be removed.", Fix: "Migrate."},
		{ID: "server-validation", Severity: v1alpha1.SeverityError, Summary: "the API server refuses the CRD", Why: "It cannot be applied.", Fix: "Correct it."},
		{ID: "single-storage-version", Severity: v1alpha1.SeverityError, Summary: "not exactly one storage version", Why: "The API server refuses it.", Fix: "Set storage on one."},
		{ID: "storage-version-not-preferred", Severity: v1alpha1.SeverityInfo, Summary: "another version has a higher priority", Why: "Worth knowing.", Fix: "Promote it."},
	}
}

// failing makes errors and warnings count.
func failing(severity v1alpha1.Severity) bool { return severity != v1alpha1.SeverityInfo }

// written are the documents in every format, by the name of the golden file.
func written(t *testing.T, findings *v1alpha1.ValidationReport, preflight *v1alpha1.PreflightReport) map[string]string {
	t.Helper()
	byID := map[string]v1alpha1.Rule{}
	for _, rule := range rules() {
		byID[rule.ID] = rule
	}
	tool := printers.SARIFTool{Name: "kubectl-crdver", Version: "v1.2.3", URI: "https://example.com/crdver", HelpURI: "https://example.com/crdver#rules", Rules: rules()}
	texts := map[string]string{}
	for name, write := range map[string]func(io.Writer) error{
		"findings.txt":      func(w io.Writer) error { return printers.WriteFindings(w, findings, byID, false) },
		"findings-wide.txt": func(w io.Writer) error { return printers.WriteFindings(w, findings, byID, true) },
		"findings.sarif":    func(w io.Writer) error { return printers.WriteSARIF(w, tool, findings.Findings) },
		"findings.xml": func(w io.Writer) error {
			return printers.WriteJUnit(w, "kubectl crdver", printers.JUnitCases(findings.CRDs, findings.Findings, failing))
		},
		"findings.github.txt": func(w io.Writer) error { return printers.WriteGitHub(w, findings.Findings) },
		"preflight.txt":       func(w io.Writer) error { return printers.WritePreflight(w, preflight, byID, false) },
		"preflight-wide.txt":  func(w io.Writer) error { return printers.WritePreflight(w, preflight, byID, true) },
		"preflight.md":        func(w io.Writer) error { return printers.WriteMarkdown(w, preflight) },
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		texts[name] = out.String()
	}
	return texts
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for name, got := range written(t, read[v1alpha1.ValidationReport](t, "findings.yaml"), read[v1alpha1.PreflightReport](t, "preflight.yaml")) {
		goldenfile.Compare(t, *update, filepath.Join(formats, name), got)
	}
}

// TestNothingToObey says that no format hands on what a terminal would obey, or
// bytes that are no text.
func TestNothingToObey(t *testing.T) {
	t.Parallel()
	findings, preflight := read[v1alpha1.ValidationReport](t, "findings.yaml"), read[v1alpha1.PreflightReport](t, "preflight.yaml")
	invalid := "a\xff\xfeb"
	for i := range findings.Findings {
		f := &findings.Findings[i]
		f.Message, f.Fix, f.Path = f.Message+invalid, f.Fix+invalid, f.Path+invalid
		if f.Location != nil {
			f.Location.File, f.Location.Text = f.Location.File+invalid, f.Location.Text+invalid
		}
		if f.Suppressed != nil {
			f.Suppressed.Reason += invalid
		}
	}
	for i := range preflight.Items {
		item := &preflight.Items[i]
		item.CRD += invalid
		for j := range item.Steps {
			item.Steps[j] += invalid
		}
		for j := range item.Findings {
			item.Findings[j].Message += invalid
		}
	}
	for name, text := range written(t, findings, preflight) {
		if !utf8.ValidString(text) {
			t.Errorf("%s is not UTF-8", name)
		}
		for i, r := range text {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
				t.Errorf("%s has %U: %q", name, r, text[max(i-30, 0):i])
			}
		}
	}
}

func TestSummaryLine(t *testing.T) {
	t.Parallel()
	for want, summary := range map[string]v1alpha1.FindingSummary{
		"0 CRDs: no findings":                                {},
		"1 CRD: no findings (2 suppressed)":                  {CRDs: 1, Suppressed: 2},
		"2 CRDs: 1 error, 2 warnings, 1 info":                {CRDs: 2, Errors: 1, Warnings: 2, Infos: 1},
		"3 CRDs: 2 errors, 1 warning, 3 info (1 suppressed)": {CRDs: 3, Errors: 2, Warnings: 1, Infos: 3, Suppressed: 1},
		"1000 CRDs: 1 warning":                               {CRDs: 1000, Warnings: 1},
	} {
		if got := printers.SummaryLine(summary); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("word ", 40)
	for line := range strings.Lines(printers.Wrap(text, "  ", 80)) {
		if line = strings.TrimRight(line, "\n"); len(line) > 80 || !strings.HasPrefix(line, "  word") {
			t.Errorf("%q", line)
		}
	}
}

package preflight_test

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/goldenfile"
	"github.com/crdver/kubectl-crdver/pkg/preflight"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

var update = flag.Bool("update", false, "write want.txt of each case anew")

// casesDir holds a directory for each case.
const casesDir = "../../testdata/preflight"

func caseDirs(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(casesDir, "*", newFile))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	dirs := make([]string, 0, len(files))
	for _, file := range files {
		dirs = append(dirs, filepath.Dir(file))
	}
	return dirs
}

// TestCompare compares the answer of each case with what it should be, word by
// word: what people do next depends on the words.
func TestCompare(t *testing.T) {
	t.Parallel()
	for _, dir := range caseDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			goldenfile.Compare(t, *update, filepath.Join(dir, "want.txt"), text(t, preflight.Compare(input(t, dir))))
		})
	}
}

// TestEveryRuleHasACase finds rules of preflight that no case makes fire. Each is
// silent in another, as no case makes all of them fire.
func TestEveryRuleHasACase(t *testing.T) {
	t.Parallel()
	dirs := caseDirs(t)
	fired := map[string]int{}
	for _, dir := range dirs {
		seen := map[string]bool{}
		for _, f := range preflight.Compare(input(t, dir)).Findings {
			if !seen[f.Rule] {
				seen[f.Rule] = true
				fired[f.Rule]++
			}
		}
	}
	for _, rule := range preflight.Rules() {
		if fired[rule.ID] == 0 || fired[rule.ID] == len(dirs) {
			t.Errorf("%s: fires in %d of %d cases", rule.ID, fired[rule.ID], len(dirs))
		}
	}
}

// TestRuleTexts checks what people read of a rule, and of each finding.
func TestRuleTexts(t *testing.T) {
	t.Parallel()
	sentence := func(text string) bool { return strings.HasSuffix(text, ".") && text[:1] != strings.ToLower(text[:1]) }
	for _, rule := range preflight.Rules() {
		if rule.Severity == "" || rule.Summary == "" || strings.HasSuffix(rule.Summary, ".") || !sentence(rule.Why) || !sentence(rule.Fix) {
			t.Errorf("%s: a text is missing, or is no sentence", rule.ID)
		}
	}
	for _, dir := range caseDirs(t) {
		for _, f := range preflight.Compare(input(t, dir)).Findings {
			if _, ok := validate.Find(preflight.Rules(), f.Rule); !ok {
				continue
			}
			if f.Message == "" || strings.HasSuffix(f.Message, ".") || strings.ContainsAny(f.Message+f.Path, "\n\t") || !sentence(f.Fix) {
				t.Errorf("%s: %s: text %q | %q", dir, f.Rule, f.Message, f.Fix)
			}
		}
	}
}

// TestAnswerFitsVerdict checks that the parts of an answer do not contradict each
// other.
func TestAnswerFitsVerdict(t *testing.T) {
	t.Parallel()
	for _, dir := range caseDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			verify(t, preflight.Compare(input(t, dir)))
		})
	}
}

// verify checks that steps come with what they clear, and that a verdict is borne
// out by findings.
func verify(t *testing.T, item v1alpha1.Preflight) {
	t.Helper()
	errors, unproven := 0, 0
	for _, f := range item.Findings {
		if f.Severity == v1alpha1.SeverityError && f.Suppressed == nil {
			errors++
			if f.Rule == "stored-version-removed" {
				unproven++
			}
		}
	}
	fits := false
	switch item.Verdict {
	case v1alpha1.VerdictOK:
		fits = errors == 0 && len(item.Steps) == 0
	case v1alpha1.VerdictUnknown:
		// What objects may be stored at is an error all the same: nobody should go on.
		fits = errors == unproven && len(item.Steps) == 0
	case v1alpha1.VerdictOKAfter:
		fits = errors > 0 && len(item.Steps) > 0
	case v1alpha1.VerdictBreaks, v1alpha1.VerdictRefused:
		fits = errors > 0
	}
	if !fits {
		t.Errorf("%q with %d errors and %d steps:\n%s", item.Verdict, errors, len(item.Steps), text(t, item))
	}
}

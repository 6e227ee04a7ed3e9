package validate_test

import (
	"cmp"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/crdver/kubectl-crdver/pkg/goldenfile"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

var update = flag.Bool("update", false, "write want.txt of each case anew")

// casesDir holds a directory for each rule, and in it one for each case.
const casesDir = "../../testdata/validate"

// TestRules runs each rule alone on its cases. Each rule has at least one case
// with findings and one without.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, rule := range validate.Rules() {
		t.Run(rule.ID, func(t *testing.T) {
			t.Parallel()
			cases, err := os.ReadDir(filepath.Join(casesDir, rule.ID))
			if err != nil {
				t.Fatal(err)
			}
			var bad, good int
			for _, one := range cases {
				dir := filepath.Join(casesDir, rule.ID, one.Name())
				t.Run(one.Name(), func(t *testing.T) {
					found := validate.Run([]validate.Rule{rule}, subject(t, dir))
					if len(found) > 0 {
						bad++
					} else {
						good++
					}
					goldenfile.Compare(t, *update, filepath.Join(dir, "want.txt"), lines(found))
				})
			}
			if bad == 0 || good == 0 {
				t.Errorf("%d cases with findings and %d without: a rule needs one of each", bad, good)
			}
		})
	}
}

// lines are the findings as want.txt has them.
func lines(found []validate.Found) string {
	var text strings.Builder
	for _, f := range found {
		text.WriteString(string(f.Severity) + " " + cmp.Or(f.Version, "-") + " " + cmp.Or(f.Path, "-") + ": " + f.Message + " | " + f.Fix + "\n")
	}
	return text.String()
}

// TestCaseDirectories finds directories that belong to no rule.
func TestCaseDirectories(t *testing.T) {
	t.Parallel()
	dirs, err := os.ReadDir(casesDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if _, ok := validate.Find(validate.Rules(), dir.Name()); !ok {
			t.Errorf("%s names no rule", dir.Name())
		}
	}
}

// TestRuleTexts checks what people read of a rule.
func TestRuleTexts(t *testing.T) {
	t.Parallel()
	id := regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, rule := range validate.Rules() {
		if !id.MatchString(rule.ID) || seen[rule.ID] {
			t.Errorf("%s: the id is not in kebab case, or not unique", rule.ID)
		}
		seen[rule.ID] = true
		sentence := func(text string) bool { return strings.HasSuffix(text, ".") && text[:1] != strings.ToLower(text[:1]) }
		switch {
		case rule.Severity == "" || rule.Summary == "" || rule.Why == "" || rule.Fix == "":
			t.Errorf("%s: severity, summary, why or fix is missing", rule.ID)
		case strings.HasSuffix(rule.Summary, "."):
			t.Errorf("%s: the summary ends in a full stop", rule.ID)
		case !sentence(rule.Why) || !sentence(rule.Fix):
			t.Errorf("%s: why and fix are not full sentences", rule.ID)
		case rule.Check == nil && rule.Claims == nil:
			t.Errorf("%s: finds nothing", rule.ID)
		case rule.Explain != nil && rule.Claims == nil:
			t.Errorf("%s: explains what it does not claim", rule.ID)
		}
		file := "rule_" + strings.ReplaceAll(rule.ID, "-", "_") + ".go"
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: there is no %s", rule.ID, file)
		}
	}
}

// TestFindings checks the findings of all rules on all cases: their texts, that
// each edit comes from a fixable rule, and that nothing of it depends on chance.
func TestFindings(t *testing.T) {
	t.Parallel()
	fixed := map[string]bool{}
	for _, dir := range caseDirs(t) {
		found := validate.Run(validate.Rules(), subject(t, dir))
		if again := validate.Run(validate.Rules(), subject(t, dir)); lines(again) != lines(found) {
			t.Errorf("%s: two runs differ:\n%s", dir, gocmp.Diff(lines(found), lines(again)))
		}
		for i, f := range found {
			rule, ok := validate.Find(validate.Rules(), f.Rule)
			switch {
			case !ok:
				t.Errorf("%s: a finding of %q", dir, f.Rule)
			case f.Message == "" || f.Fix == "" || strings.HasSuffix(f.Message, ".") || strings.ContainsAny(f.Message+f.Path, "\n\t"):
				t.Errorf("%s: %s: text %q | %q", dir, f.Rule, f.Message, f.Fix)
			case len(f.Edits) > 0 && !rule.Fixable:
				t.Errorf("%s: %s has an edit and is not fixable", dir, f.Rule)
			case f.Suppressed != nil:
				t.Errorf("%s: %s is suppressed, and nobody chose so", dir, f.Rule)
			case i > 0 && !validate.AtLeast(found[i-1].Severity, f.Severity):
				t.Errorf("%s: %s comes after what is less severe", dir, f.Rule)
			}
			fixed[f.Rule] = fixed[f.Rule] || f.Fixable
		}
	}
	for _, rule := range validate.Rules() {
		if rule.Fixable && !fixed[rule.ID] {
			t.Errorf("%s is fixable, and no case has an edit", rule.ID)
		}
	}
}

// TestEveryRefusalIsOneFinding checks that nothing the server refuses is lost or
// told twice by different rules: as many rules speak as refusals are claimed by,
// and "server-validation" takes only what nobody else does.
func TestEveryRefusalIsOneFinding(t *testing.T) {
	t.Parallel()
	rules := validate.Rules()
	for _, dir := range caseDirs(t) {
		s := subject(t, dir)
		want, got := map[string]int{}, map[string]int{}
		for _, refusal := range s.Refusals() {
			for _, rule := range rules {
				if rule.Claims != nil && rule.Claims(refusal) {
					want[rule.ID]++
					break
				}
			}
		}
		for _, f := range validate.Run(rules, s) {
			if f.Refused {
				got[f.Rule]++
				if f.Severity != "error" {
					t.Errorf("%s: %s is refused by the server and only %s", dir, f.Rule, f.Severity)
				}
			}
		}
		for id, refusals := range want {
			// Refusals that are one mistake become one finding.
			if got[id] < 1 || got[id] > refusals {
				t.Errorf("%s: %d refusals are claimed by %s, which has %d findings", dir, refusals, id, got[id])
			}
		}
		for id := range got {
			if want[id] == 0 {
				t.Errorf("%s: %s has a refusal that it does not claim", dir, id)
			}
		}
	}
}

// caseDirs are the directories of all cases.
func caseDirs(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(casesDir, "*", "*", "crd.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	dirs := make([]string, 0, len(files))
	for _, file := range files {
		dirs = append(dirs, filepath.Dir(file))
	}
	return dirs
}

package cmd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

const (
	rulesBegin = "<!-- rules: go test ./pkg/cmd -run TestReadmeRules -update-readme -->\n"
	rulesEnd   = "<!-- end of rules -->\n"
)

// TestReadmeRules compares the tables of rules in README.md with the rules.
func TestReadmeRules(t *testing.T) {
	path := filepath.Join(root, "README.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), rulesBegin)
	_, after, ended := strings.Cut(rest, rulesEnd)
	if !found || !ended {
		t.Fatal("README.md has no place for the rules")
	}
	want := before + rulesBegin + rulesTables(t) + rulesEnd + after
	if *updateReadme {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("the rules in README.md are not those that there are (-rules +README):\n%s", diff)
	}
}

// rulesTables returns a table of the rules for each command that applies them.
func rulesTables(t *testing.T) string {
	t.Helper()
	var list v1alpha1.RuleList
	if err := json.Unmarshal([]byte(runConsole(t, "kubectl crdver validate --list-rules -o json")), &list); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, command := range []string{"validate", "preflight"} {
		fmt.Fprintf(&out, "\nRules of `%s`", command)
		if command == "validate" {
			out.WriteString(" (*live*: only on a cluster; *fix*: `--fix` can correct manifests)")
		}
		out.WriteString(":\n\n| rule | severity | what it finds | |\n|---|---|---|---|\n")
		for _, rule := range list.Items {
			if rule.Command != command {
				continue
			}
			var notes []string
			if rule.LiveOnly {
				notes = append(notes, "live")
			}
			if rule.Fixable {
				notes = append(notes, "fix")
			}
			fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", rule.ID, rule.Severity, strings.ReplaceAll(rule.Summary, "|", `\|`), strings.Join(notes, ", "))
		}
	}
	out.WriteString("\n")
	return out.String()
}

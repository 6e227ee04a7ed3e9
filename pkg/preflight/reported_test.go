package preflight_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/preflight"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// reportedDir has failures that people reported, each as a live CRD and often the
// manifest that was applied. It is not part of this repository.
const reportedDir = "../../../shared/cases"

// TestReportedFailures compares each manifest of the reported failures with its
// live CRD: the answer says that stored versions keep the server from taking it
// exactly where they did, and names them.
func TestReportedFailures(t *testing.T) {
	t.Parallel()
	catalogue, err := os.ReadFile(filepath.Join(reportedDir, "cases.md"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("there is no " + reportedDir)
	}
	if err != nil {
		t.Fatal(err)
	}
	blockedBy := blockedBy(string(catalogue))
	manifests, err := filepath.Glob(filepath.Join(reportedDir, "*.new.yaml"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	for _, file := range manifests {
		name := strings.TrimSuffix(filepath.Base(file), ".new.yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			number, _, _ := strings.Cut(name, "-")
			blocked, known := blockedBy[number]
			if !known {
				t.Fatalf("the catalogue does not say what blocks %s", number)
			}
			item := preflight.Compare(preflight.Input{
				Old: live(t, read(t, reportedDir, name+".yaml"), lifecycle.Observations{}), New: manifest(t, read(t, reportedDir, filepath.Base(file)), newFile),
				Rules: validate.Rules(), PreflightRules: preflight.Rules(),
			})
			i := slices.IndexFunc(item.Findings, func(f v1alpha1.Finding) bool {
				return f.Rule == "stored-version-removed" || f.Rule == "manifest-older-than-cluster"
			})
			if (i >= 0) != (len(blocked) > 0) {
				t.Fatalf("blocked by %q, and the answer is\n%s", blocked, text(t, item))
			}
			for _, version := range blocked {
				if !strings.Contains(item.Findings[i].Message, version) {
					t.Errorf("%s is not named:\n%s", version, text(t, item))
				}
			}
			// The one that is refused for another reason has two controlling owners.
			refused := slices.ContainsFunc(item.Findings, func(f v1alpha1.Finding) bool { return f.Rule == "update-refused" })
			stops := item.Verdict == v1alpha1.VerdictRefused || item.Verdict == v1alpha1.VerdictOKAfter
			if stops != (len(blocked) > 0 || refused) || refused && !strings.Contains(item.Findings[0].Path, "ownerReferences") {
				t.Errorf("blocked by %q, and the answer is\n%s", blocked, text(t, item))
			}
		})
	}
}

// blockedBy reads from the catalogue which stored versions keep a manifest from
// being applied, by the number of the case.
func blockedBy(catalogue string) map[string][]string {
	heading := regexp.MustCompile(`^### (\d+)\.`)
	proposed := regexp.MustCompile(`proposed manifest: .*blocked by stored \[(.*)\]`)
	quoted := regexp.MustCompile(`'([^']+)'`)
	result := map[string][]string{}
	number := ""
	for line := range strings.Lines(catalogue) {
		if match := heading.FindStringSubmatch(line); match != nil {
			number = match[1]
		}
		if match := proposed.FindStringSubmatch(line); match != nil {
			result[number] = nil
			for _, version := range quoted.FindAllStringSubmatch(match[1], -1) {
				result[number] = append(result[number], version[1])
			}
		}
	}
	return result
}

package printers

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/goldenfile"
)

func TestHang(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"short": "short",
		"    why     objects are written at v1beta1; from now on": "" +
			"    why     objects are\n            written at\n            v1beta1; from\n            now on",
		"  2. make v1 the storage version, at last": "  2. make v1 the storage\n     version, at last",
		"[12/16] rewrite all objects at v1":         "[12/16] rewrite all\n        objects at v1",
		"Warning: something is not quite as it was": "Warning: something is\n  not quite as it was",
		"     ~ spec.versions[v1].storage: false -> true": "" +
			"     ~ spec.versions[v1].storage:\n       false -> true",
		// Half of a command is another command.
		"  run kubectl crdver retire v1beta1 crontabs.example.com --allow-in-use; and then go on": "" +
			"  run\n    kubectl crdver retire v1beta1 crontabs.example.com --allow-in-use;\n    and then go on",
		"  to do: kubectl crdver deprecate v1 a.example.com --message 'so, what; now' -l a=1,b=2, or wait": "" +
			"  to do:\n    kubectl crdver deprecate v1 a.example.com --message 'so, what; now' -l a=1,b=2,\n    or wait",
		"  größer ist größer ist größer": "  größer ist größer ist\n    größer",
	} {
		if got := hang(line, 25); got != want {
			t.Errorf("%q becomes\n%s\nand not\n%s", line, got, want)
		}
		if got := hang(line, 0); got != line {
			t.Errorf("without a terminal, %q becomes %q", line, got)
		}
	}
}

// TestWritePlanFits has a plan at the width of a small terminal: nothing is lost, and
// no line is longer but for one with a word, or a command, that is.
func TestWritePlanFits(t *testing.T) {
	t.Parallel()
	objects := int64(200)
	plan := v1alpha1.Plan{
		Target: v1alpha1.Target{CRD: v1alpha1.CRDIdentity{Name: "crontabs.stable.example.com", StorageVersion: "v1beta1", StoredVersions: []string{"v1beta1"}},
			Cluster: v1alpha1.ClusterIdentity{Server: "https://127.0.0.1:6443", Context: "production"}},
		Intent: v1alpha1.Intent{Verb: v1alpha1.VerbPromote, Version: "v1"},
		Engine: &v1alpha1.EngineChoice{Name: v1alpha1.EngineClient, Reason: "auto: it knows what came of each object"},
		Steps: []v1alpha1.Step{{
			ID: "set-storage", Title: "make v1 the storage version of all objects", Why: "objects are written at v1beta1; from now on every write persists v1",
			Changes:       []v1alpha1.Change{{Path: "spec.versions[v1beta1].storage", From: "true", To: "false"}},
			Preconditions: []v1alpha1.Precondition{{Description: "the rehearsal found nothing, as it should", Status: "met"}},
			Verify:        []v1alpha1.Check{{Description: "v1 is the storage version and in status.storedVersions"}},
			Undo:          "kubectl crdver promote v1beta1 crontabs.stable.example.com",
		}},
		Warnings: []string{"webhooks see every object that is rewritten"},
		Blockers: []v1alpha1.Blocker{{Message: "fields would be lost for good", Details: []string{"spec.replicas of 3 objects, such as a/object-1"}, Resolve: "pass --allow-loss spec.replicas"}},
		Summary:  v1alpha1.Summary{Steps: 1, CRDPatches: 1, Objects: &objects, Irreversible: []string{"trim"}},
		Hold:     "crdver.dev/migration",
	}
	text := func(width int) string {
		var out bytes.Buffer
		if err := WritePlan(&out, plan, width); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	whole := text(0)
	for width := 30; width < 120; width++ {
		got := text(width)
		if want := strings.Fields(whole); strings.Join(strings.Fields(got), " ") != strings.Join(want, " ") {
			t.Fatalf("at %d columns the text is another one:\n%s", width, got)
		}
		for line := range strings.Lines(got) {
			line = strings.TrimRight(line, "\n")
			if utf8.RuneCountInString(line) > width && !strings.Contains(line, "kubectl crdver") && len(strings.Fields(line)) > 2 {
				t.Errorf("longer than %d columns: %q", width, line)
			}
		}
	}
	for _, width := range []int{0, 40} {
		goldenfile.Compare(t, updating(), fmt.Sprintf("../../testdata/formats/plan-%d.txt", width), text(width))
	}
}

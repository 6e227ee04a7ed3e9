package e2e_test

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// runAt runs a command at a time.
func (b *bed) runAt(t *testing.T, at time.Time, args ...string) result {
	t.Helper()
	return executeAt(t.Context(), neverRead{t}, func() time.Time { return at }, append(args, "--kubeconfig", b.kubeconfig)...)
}

func (b *bed) mustAt(t *testing.T, code int, at time.Time, args ...string) result {
	t.Helper()
	got := b.runAt(t, at, args...)
	if got.code != code {
		t.Fatalf("kubectl crdver %q: want exit code %d, got %s", args, code, got)
	}
	return got
}

// annotate writes an annotation of the CRD as somebody else would.
func (b *bed) annotate(t *testing.T, name, key, text string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: text}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.crds(t).ApiextensionsV1().CustomResourceDefinitions().Patch(
		t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "kubectl-annotate"})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRetireInUse stops serving nothing that somebody has just written at, unless
// that is allowed, which the report records.
func TestRetireInUse(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "inuse.example.com"
	name := b.scene(t, group, 3)
	b.must(t, 0, "promote", "v1", name, "--yes")
	before := b.revisions(t)
	gate := []string{"--yes", "--usage-window", "24h"}
	got := b.must(t, 3, append([]string{"retire", "v1beta1", name}, gate...)...)
	contains(t, got.stderr, "v1beta1 is in use: manager", "write, 3 objects, last at", "(managed-fields)",
		"--allow-in-use", "kubectl crdver usage v1beta1 "+name, "no evidence that v1beta1 was used within 24h0m0s")
	b.wantUnwritten(t, before)

	b.must(t, 0, append([]string{"retire", "v1beta1", name, "--until", "deprecate"}, gate...)...)
	// A day and a bit later that is long ago.
	later := time.Now().Add(25 * time.Hour)
	contains(t, b.mustAt(t, 0, later, append([]string{"retire", "v1beta1", name, "--dry-run=server"}, gate...)...).stdout,
		"nothing that acts by itself names it (met)")

	var report v1alpha1.Report
	decode(t, "json", b.must(t, 0, "retire", "v1beta1", name, "--yes", "--allow-in-use", "--until", "unserve", "-o", "json").stdout, &report)
	if !report.Intent.AllowInUse || report.Back == "" {
		t.Errorf("the report does not record what was allowed, or the way back: %+v", report)
	}
	contains(t, report.Steps[len(report.Steps)-1].Message, "in use when it ended (--allow-in-use): manager")
	contains(t, b.must(t, 0, "restore", "v1beta1", name, "--yes").stdout, "restored v1beta1")
}

// TestSoak retires a version over several runs, on machines that have nothing in
// common but the cluster: a run while the soak lasts changes nothing, use starts it
// over, and neither a clock that goes back nor an edit makes it shorter.
func TestSoak(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "soak.example.com"
	name := b.scene(t, group, 3)
	b.must(t, 0, "promote", "v1", name, "--yes")
	first := []string{"retire", "v1beta1", name, "--yes", "--usage-window", "24h", "--soak", "72h"}
	cron := []string{"retire", "v1beta1", name, "--yes", "--usage-window", "24h"} // Knows of no --soak.
	t0 := time.Now().UTC().Truncate(time.Second)

	got := b.mustAt(t, 0, t0, first...)
	contains(t, got.stdout, "to continue after "+t0.Add(72*time.Hour).Format(time.RFC3339)+": kubectl crdver retire v1beta1 "+name,
		"--soak 72h0m0s", "the way back: kubectl crdver restore v1beta1 "+name)
	contains(t, b.must(t, 0, "status", name).stdout, "v1beta1 soaks (deprecated since")

	before := b.revisions(t)
	for _, at := range []time.Duration{time.Hour, 71 * time.Hour, -1000 * time.Hour} {
		got = b.mustAt(t, 0, t0.Add(at), cron...)
		contains(t, got.stderr, "left, until "+t0.Add(72*time.Hour).Format(time.RFC3339))
		contains(t, got.stdout, "to continue after "+t0.Add(72*time.Hour).Format(time.RFC3339))
	}
	b.wantUnwritten(t, before)

	// Use appears: everything starts over, even when the time is up.
	time.Sleep(1100 * time.Millisecond) // managedFields are in seconds.
	b.createObjects(t, group, "v1beta1", 1, "late")
	t1 := t0.Add(73 * time.Hour)
	got = b.mustAt(t, 0, t1, cron...)
	contains(t, got.stderr, "starts over: manager ")
	contains(t, got.stdout, "to continue after "+t1.Add(72*time.Hour).Format(time.RFC3339))
	b.mustAt(t, 0, t1.Add(71*time.Hour), cron...)

	// Over: unserved, and the second soak begins.
	t2 := t1.Add(73 * time.Hour)
	got = b.mustAt(t, 0, t2, cron...)
	contains(t, got.stdout, "to continue after "+t2.Add(72*time.Hour).Format(time.RFC3339))
	b.wantVersions(t, name, []string{"v1beta1 unserved", "v1 storage"}, []string{"v1"})
	b.mustAt(t, 0, t2.Add(time.Hour), cron...)
	b.wantVersions(t, name, []string{"v1beta1 unserved", "v1 storage"}, []string{"v1"})

	b.mustAt(t, 0, t2.Add(73*time.Hour), cron...)
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	if text, found := b.crd(t, name).Annotations[lifecycle.SoakAnnotation]; found {
		t.Errorf("the annotation is left: %s", text)
	}
}

// TestSoakEdited believes no annotation that makes no sense or that somebody else
// has changed, and restore ends the soak in one command.
func TestSoakEdited(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "edited.example.com"
	name := b.scene(t, group, 1)
	b.must(t, 0, "promote", "v1", name, "--yes")
	t0 := time.Now().UTC().Truncate(time.Second)
	b.mustAt(t, 0, t0, "retire", "v1beta1", name, "--yes", "--soak", "72h")
	var soak v1alpha1.Soak
	if err := json.Unmarshal([]byte(b.crd(t, name).Annotations[lifecycle.SoakAnnotation]), &soak); err != nil {
		t.Fatal(err)
	}
	soak.Since.Time, soak.Until.Time = t0.Add(-time.Hour), t0
	shorter := lifecycle.MarkText(soak)
	for text, want := range map[string]string{
		shorter:       `was changed by "kubectl-annotate"`,
		"soon":        "cannot be read",
		`{}`:          "has no version",
		shorter + "x": "cannot be read",
		`{"version":"v1beta1","phase":"deprecated","since":"2026-01-02T00:00:00Z","until":"2026-01-01T00:00:00Z"}`: "does not end after it begins",
		`{"version":"v1beta1","phase":"asleep","since":"2026-01-01T00:00:00Z","until":"2026-01-02T00:00:00Z"}`:     `the phase "asleep"`,
		`{"version":"v1beta1","phase":"deprecated","duration":"1s"}`:                                               "unknown field",
	} {
		b.annotate(t, name, lifecycle.SoakAnnotation, text)
		before := b.revisions(t)
		got := b.mustAt(t, 3, t0.Add(time.Hour), "retire", "v1beta1", name, "--yes")
		contains(t, got.stderr, want, "kubectl crdver restore v1beta1 "+name)
		b.wantUnwritten(t, before)
	}
	b.must(t, 0, "restore", "v1beta1", name, "--yes")
	if text, found := b.crd(t, name).Annotations[lifecycle.SoakAnnotation]; found {
		t.Errorf("restore left %s", text)
	}
}

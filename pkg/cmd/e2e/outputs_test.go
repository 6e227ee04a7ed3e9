package e2e_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// decode decodes exactly one document that has no field the type does not know.
func decode(t *testing.T, format, text string, into any) {
	t.Helper()
	if format == "yaml" {
		if strings.Contains(text, "\n---") {
			t.Errorf("more than one document: %s", text)
		}
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		return
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Errorf("%v: %s", err, text)
		return
	}
	var more any
	if err := decoder.Decode(&more); err != io.EOF {
		t.Errorf("something follows the document: %s", text)
	}
}

func TestOutputIsOneDocument(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	for _, format := range []string{"json", "yaml"} {
		group := "output-" + format + ".example.com"
		name := b.scene(t, group, 8)
		second := b.scene(t, "second."+group, 8)
		for _, dryRun := range []string{"client", "server"} {
			var plan v1alpha1.Plan
			decode(t, format, b.must(t, 0, "promote", "v1", name, "-o", format, "--dry-run="+dryRun).stdout, &plan)
			if plan.Kind != "Plan" || !plan.Applyable || !plan.Complete || len(plan.Steps) != 6 || plan.Target.CRD.Name != name {
				t.Errorf("%s: %+v", dryRun, plan)
			}
			for _, step := range plan.Steps {
				if step.Why == "" || step.Title == "" || len(step.Verify) == 0 || (step.Patch != nil) != (len(step.Changes) > 0) {
					t.Errorf("the step %s says too little: %+v", step.ID, step)
				}
			}
			var plans v1alpha1.PlanList
			decode(t, format, b.must(t, 0, "promote", "v1", name, second, "-o", format, "--dry-run="+dryRun).stdout, &plans)
			if plans.Kind != "PlanList" || len(plans.Items) != 2 || plans.Items[1].Target.CRD.Name != second {
				t.Errorf("%s: %+v", dryRun, plans)
			}
		}
		var blocked v1alpha1.Plan
		decode(t, format, b.must(t, 3, "retire", "v1beta1", name, "-o", format, "--dry-run=server").stdout, &blocked)
		if blocked.Applyable || len(blocked.Blockers) == 0 || blocked.Blockers[0].ID != "storage-version" || blocked.Blockers[0].Resolve != "kubectl crdver promote v1 "+name {
			t.Errorf("%+v", blocked.Blockers)
		}
		// What is refused without a dry run is reported, too.
		for _, args := range [][]string{{"retire", "v1beta1", name, "--yes"}, {"promote", "v1", name}} {
			var refused v1alpha1.Report
			decode(t, format, b.must(t, 3, append(args, "-o", format)...).stdout, &refused)
			if refused.Outcome != v1alpha1.OutcomeRefused || refused.Message == "" {
				t.Errorf("%q: %+v", args, refused)
			}
		}
		var report v1alpha1.Report
		got := b.must(t, 0, "promote", "v1", name, "--yes", "-o", format)
		decode(t, format, got.stdout, &report)
		if e := report.Evidence; report.Kind != "Report" || report.Outcome != v1alpha1.OutcomeDone || e == nil || !e.Complete ||
			e.StorageVersion != "v1" || e.Generation != b.crd(t, name).Generation || e.Objects.Listed != 8 ||
			report.StorageVersion != "v1" || !slices.Equal(report.StoredVersions, []string{"v1"}) || report.Resume != "" {
			t.Errorf("%+v", report)
		}
		contains(t, got.stderr, "Plan: ", "[6/6] trim")
		var reports v1alpha1.ReportList
		decode(t, format, b.must(t, 0, "promote", "v1", name, second, "--yes", "-o", format).stdout, &reports)
		if len(reports.Items) != 2 || reports.Items[0].Outcome != v1alpha1.OutcomeUnchanged || reports.Items[1].Outcome != v1alpha1.OutcomeDone {
			t.Errorf("%+v", reports)
		}
		var removed v1alpha1.Report
		decode(t, format, b.must(t, 0, "retire", "v1beta1", name, "--yes", "-o", format).stdout, &removed)
		if e := removed.Evidence; e == nil || !e.Complete || e.ManagedFields == nil || *e.ManagedFields != 0 {
			t.Errorf("%+v", removed)
		}
	}
}

func TestProgressAsJSON(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.scene(t, "events.example.com", 8)
	got := b.must(t, 0, "promote", "v1", name, "--yes", "--progress", "json")
	var types []string
	for line := range strings.Lines(got.stderr) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		decoder := json.NewDecoder(bytes.NewBufferString(line))
		decoder.DisallowUnknownFields()
		var event v1alpha1.Event
		if err := decoder.Decode(&event); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		if event.Type != v1alpha1.EventProgress {
			types = append(types, string(event.Type))
		}
	}
	want := append(append([]string{"PlanStarted"}, slices.Repeat([]string{"StepStarted", "StepFinished"}, 6)...), "PlanFinished")
	if !slices.Equal(types, want) {
		t.Errorf("%q", types)
	}
	none := b.must(t, 0, "migrate", name, "--force", "--yes", "--progress", "none")
	if strings.Contains(none.stderr, "[1/") {
		t.Errorf("progress although there shall be none: %s", none.stderr)
	}
}

// TestRunningAgain runs every command twice: the second time nothing is done.
func TestRunningAgain(t *testing.T) {
	t.Parallel()
	var watch traffic
	b := start(t, testbed.InProcessOptions{Middleware: watch.wrap})
	const group = "again.example.com"
	name := b.scene(t, group, 12)
	manifest := crontabs(group, "v1beta1", "v1", "v2")
	text, err := yaml.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plan.yaml")
	for _, args := range [][]string{
		{"deprecate", "v1beta1", name},
		{"deprecate", "v1beta1", name, "--message", group + "/v1beta1 CronTab goes"},
		{"deprecate", "v1beta1", name, "--undo"},
		{"promote", "v1", name, "--until", "set-storage"},
		{"migrate", name},
		{"promote", "v1", name},
		{"promote", "v1", name, "--deprecate-older"},
		{"restore", "v2", name, "-f", writeFile(t, "crd.yaml", text)},
		{"restore", "v3", name, "--from", "v1"},
		{"restore", "v2", name},
		{"retire", "v1beta1", name, "--until", "unserve"},
		{"restore", "v1beta1", name},
		{"retire", "v1beta1", name},
		{"retire", "v2", name, "--until", "deprecate"},
		{"retire", "v2", name},
		{"retire", "v3", name},
	} {
		first := b.must(t, 0, append(args, "--yes")...)
		if strings.Contains(first.stdout, name+" unchanged") && args[0] != "promote" {
			t.Errorf("%q the first time: %s", args, first)
		}
		before := b.revisions(t)
		watch.take()
		second := b.must(t, 0, args...) // Without --yes: there is nothing to ask.
		contains(t, second.stdout, name+" unchanged")
		contains(t, second.stderr, "Nothing to do.")
		if _, _, writes := watch.take(); len(writes) > 0 {
			t.Errorf("%q again: %q", args, writes)
		}
		b.must(t, 0, append(args, "--dry-run=server", "--detailed-exitcode")...)
		b.wantUnwritten(t, before)
	}
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	// A forced migration looks at every object and writes none; the CRD says meanwhile
	// who is at work.
	objects := func() map[string]int64 {
		all := b.revisions(t)
		maps.DeleteFunc(all, func(key string, _ int64) bool { return strings.Contains(key, "/customresourcedefinitions/") })
		return all
	}
	before := objects()
	contains(t, b.must(t, 0, "migrate", name, "--force", "--yes").stdout, "12 already current")
	if after := objects(); !maps.Equal(before, after) {
		t.Errorf("written: %v, before %v", after, before)
	}
	b.must(t, 0, "promote", "v1", name, "--plan-out", file)
	contains(t, b.must(t, 0, "apply", "-f", file).stdout, "unchanged")
}

// TestUntil stops after each step in turn and goes on from there.
func TestUntil(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, n = "until.example.com", 15
	name := b.scene(t, group, n)
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.Version(c, "v1").Served = false })
	for _, test := range []struct {
		args             []string
		versions, stored []string
		counts           map[string]int
	}{
		{[]string{"promote", "v1", "--until", "add"}, []string{"v1beta1 storage", "v1 unserved"}, []string{"v1beta1"}, map[string]int{"v1beta1": n}},
		{[]string{"promote", "v1", "--until", "serve"}, []string{"v1beta1 storage", "v1"}, []string{"v1beta1"}, map[string]int{"v1beta1": n}},
		{[]string{"promote", "v1", "--until", "rehearse"}, []string{"v1beta1 storage", "v1"}, []string{"v1beta1"}, map[string]int{"v1beta1": n}},
		{[]string{"promote", "v1", "--until", "set-storage"}, []string{"v1beta1", "v1 storage"}, []string{"v1beta1", "v1"}, map[string]int{"v1beta1": n}},
		{[]string{"promote", "v1", "--until", "migrate"}, []string{"v1beta1", "v1 storage"}, []string{"v1beta1", "v1"}, map[string]int{"v1": n}},
		{[]string{"promote", "v1", "--until", "verify"}, []string{"v1beta1", "v1 storage"}, []string{"v1beta1", "v1"}, map[string]int{"v1": n}},
		{[]string{"promote", "v1", "--until", "trim"}, []string{"v1beta1", "v1 storage"}, []string{"v1"}, map[string]int{"v1": n}},
		{[]string{"retire", "v1beta1", "--until", "rehearse"}, []string{"v1beta1", "v1 storage"}, []string{"v1"}, nil},
		{[]string{"retire", "v1beta1", "--until", "deprecate"}, []string{"v1beta1", "v1 storage"}, []string{"v1"}, nil},
		{[]string{"retire", "v1beta1", "--until", "unserve"}, []string{"v1beta1 unserved", "v1 storage"}, []string{"v1"}, nil},
		{[]string{"retire", "v1beta1", "--until", "verify"}, []string{"v1beta1 unserved", "v1 storage"}, []string{"v1"}, nil},
		{[]string{"retire", "v1beta1", "--until", "clean-managed-fields"}, []string{"v1beta1 unserved", "v1 storage"}, []string{"v1"}, nil},
		{[]string{"retire", "v1beta1", "--until", "remove"}, []string{"v1 storage"}, []string{"v1"}, map[string]int{"v1": n}},
	} {
		got := b.must(t, 0, append(test.args, name, "--yes")...)
		b.wantVersions(t, name, test.versions, test.stored)
		if test.counts != nil {
			b.wantStored(t, group, test.counts)
		}
		if test.args[3] != "trim" && test.args[3] != "remove" && !strings.Contains(got.stdout, "unchanged") {
			contains(t, got.stdout, "partly ", "to continue: kubectl crdver "+test.args[0]+" "+test.args[1]+" "+name)
		}
		if t.Failed() {
			t.Fatalf("%q: %s", test.args, got)
		}
	}
}

package printers

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/goldenfile"
)

func updating() bool {
	known := flag.Lookup("update")
	return known != nil && known.Value.String() == "true"
}

func halfWay() v1alpha1.Progress {
	return v1alpha1.Progress{
		Counts: v1alpha1.ObjectCounts{Listed: 12345, Rewritten: 12000, Current: 340, Refused: 2, Failed: 3, Retries: 7},
		Total:  50000, InFlight: 16, Rate: 1234.5, ETASeconds: 31, Pass: 1,
	}
}

// TestBarLine has the bar at many widths: each line fits, and the counts stay to
// the last.
func TestBarLine(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, width := range []int{200, 120, 100, 80, 60, 40, 30, 20, 11, 5} {
		line := barLine(halfWay(), width)
		if len(line) > width {
			t.Errorf("%d columns: %q has %d", width, line, len(line))
		}
		fmt.Fprintf(&got, "%3d |%s\n", width, line)
	}
	fmt.Fprintf(&got, " 80 |%s\n", barLine(v1alpha1.Progress{}, 80))
	fmt.Fprintf(&got, " 80 |%s\n", barLine(v1alpha1.Progress{Counts: v1alpha1.ObjectCounts{Listed: 9, Current: 9}, Total: 3}, 80))
	goldenfile.Compare(t, updating(), "../../testdata/formats/progress-bar.txt", got.String())
}

// TestStatus asks where a run is, in every mode.
func TestStatus(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	half := halfWay()
	step := v1alpha1.Event{CRD: "crontabs.example.com", Step: "migrate", StepNumber: 3, StepTotal: 6, Title: "rewrite", Time: metav1.NewTime(at)}
	for _, test := range []struct {
		mode ProgressMode
		want []string
	}{
		{ProgressNone, []string{
			"nothing was begun yet\n",
			"crontabs.example.com [3/6] migrate, for 2s\n",
			"crontabs.example.com [3/6] migrate: 12345 of 50000, 1234/s, 31s left, 16 in flight, 7 sent again, 2 refused, 3 failed\n",
		}},
		{ProgressPlain, []string{
			"nothing was begun yet\n",
			"[3/6] rewrite\ncrontabs.example.com [3/6] migrate, for 2s\n",
			"crontabs.example.com [3/6] migrate: 12345 of 50000, 1234/s, 31s left, 16 in flight, 7 sent again, 2 refused, 3 failed\n",
		}},
	} {
		var out bytes.Buffer
		p := NewProgress(&out, test.mode)
		look := func(i int) {
			t.Helper()
			p.Status(at.Add(2 * time.Second))
			if out.String() != test.want[i] {
				t.Errorf("%s: got %q, want %q", test.mode, out.String(), test.want[i])
			}
			out.Reset()
		}
		look(0)
		started := step
		started.Type = v1alpha1.EventStepStarted
		p.Show(started)
		look(1)
		moved := step
		moved.Type, moved.Progress = v1alpha1.EventProgress, &half
		p.Show(moved)
		look(2)
		p.End()
	}

	var out bytes.Buffer
	p := NewProgress(&out, ProgressJSON)
	moved := step
	moved.Type, moved.Progress = v1alpha1.EventProgress, &half
	p.Show(moved)
	out.Reset()
	p.Status(at.Add(2 * time.Second))
	var event v1alpha1.Event
	if err := json.Unmarshal(out.Bytes(), &event); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Fatalf("%q: %v", out.String(), err)
	}
	if event.Type != v1alpha1.EventStatus || event.Kind != v1alpha1.KindEvent || event.Step != "migrate" || event.Progress.Rate != 1234.5 || event.Progress.ETASeconds != 31 {
		t.Errorf("%+v", event)
	}
}

// TestWriteReportFailures has the groups of failures at two widths, and as a
// document.
func TestWriteReportFailures(t *testing.T) {
	t.Parallel()
	report := v1alpha1.Report{
		TypeMeta: metav1.TypeMeta{APIVersion: "crdver.dev/v1alpha1", Kind: v1alpha1.KindReport},
		Target:   v1alpha1.Target{CRD: v1alpha1.CRDIdentity{Name: "crontabs.example.com"}},
		Intent:   v1alpha1.Intent{Verb: v1alpha1.VerbPromote, Version: "v1"},
		Outcome:  v1alpha1.OutcomePartial, Message: "migrate: 16 of 120 objects could not be rewritten",
		StorageVersion: "v1", StoredVersions: []string{"v1beta1", "v1"},
		Steps: []v1alpha1.StepReport{{
			ID: "migrate", Outcome: v1alpha1.OutcomePartial,
			Objects: &v1alpha1.ObjectCounts{Listed: 120, Rewritten: 104, Refused: 13, Failed: 3},
			FailureGroups: []v1alpha1.FailureGroup{
				{
					Outcome: "refused", Reason: "AdmissionDenied", By: v1alpha1.PartyPolicy, ByName: "frozen-crontab", Count: 12,
					Examples: []string{"a/object-000000", "a/object-000002", "b/object-000001"},
					Message:  "it is frozen\x1b[31m", Resolve: "exempt the objects in the policy",
				},
				{Outcome: "failed", Reason: "Unavailable", By: v1alpha1.PartyWebhook, ByName: "guard", Count: 3, Examples: []string{"x", "y", "z"}, Message: "no answer", Resolve: "run again"},
				{Outcome: "refused", Reason: "Forbidden", By: v1alpha1.PartyRBAC, Count: 1, Examples: []string{"a/b"}, Message: `User "jane" cannot patch`, Resolve: "let this user patch the resource"},
			},
		}, {ID: "trim", Outcome: v1alpha1.OutcomeNotRun}},
	}
	for _, width := range []int{0, 40} {
		var got bytes.Buffer
		if err := WriteReport(&got, report, width); err != nil {
			t.Fatal(err)
		}
		goldenfile.Compare(t, updating(), fmt.Sprintf("../../testdata/formats/report-failures-%d.txt", width), got.String())
	}
	var got bytes.Buffer
	if err := WriteDocument(&got, "json", &report); err != nil {
		t.Fatal(err)
	}
	goldenfile.Compare(t, updating(), "../../testdata/formats/report-failures.json", got.String())
}

// TestPlanning has how far the rehearsal is that a plan waits for: events at most
// every so often, plain lines with what they are about, and nothing of one that is
// over at once.
func TestPlanning(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		mode   ProgressMode
		every  time.Duration
		want   string
		events int
	}{
		{ProgressNone, time.Second, "", 0},
		{ProgressAuto, 100 * time.Millisecond, "", 0},
		{ProgressPlain, 100 * time.Millisecond, "", 0},
		{
			ProgressPlain, time.Second, "Rehearsing the rewrite of crontabs.example.com for the plan (server dry run)\n" +
				"      50 of 120, 10/s, 8s left\n      100 of 120, 10/s, 3s left\n", 0,
		},
		{ProgressJSON, 100 * time.Millisecond, "", 6},
		{ProgressJSON, time.Second, "", 12},
	} {
		var out bytes.Buffer
		clock := at
		p := NewProgress(&out, test.mode)
		show := p.Planning("crontabs.example.com", func() time.Time { return clock })
		for done := int64(10); done <= 120; done += 10 {
			clock = clock.Add(test.every)
			show(done, 120)
		}
		p.End()
		if test.mode != ProgressJSON && out.String() != test.want {
			t.Errorf("%s every %s: %q", test.mode, test.every, out.String())
		}
		events := 0
		for line := range strings.Lines(out.String()) {
			var event v1alpha1.Event
			if test.mode != ProgressJSON || json.Unmarshal([]byte(line), &event) != nil {
				continue
			}
			events++
			if event.Type != v1alpha1.EventProgress || event.CRD != "crontabs.example.com" || event.Step != "rehearse" || event.Progress.Total != 120 {
				t.Errorf("%s", line)
			}
		}
		if events != test.events {
			t.Errorf("%s every %s: %d events", test.mode, test.every, events)
		}
		out.Reset()
		p.Status(clock)
		if test.mode != ProgressJSON && !strings.Contains(out.String(), "crontabs.example.com, planning: rehearse") {
			t.Errorf("%s: %q", test.mode, out.String())
		}
	}
}

// TestPlanningAgain has the objects gone over a second time, for the conversion
// webhook: that has a rate of its own.
func TestPlanningAgain(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := NewProgress(&out, ProgressPlain)
	show := p.Planning("crontabs.example.com", func() time.Time { return clock })
	for _, done := range []int64{50, 100, 1, 101} {
		clock = clock.Add(5 * time.Second)
		show(done, 100+done/101*900)
	}
	want := "Rehearsing the rewrite of crontabs.example.com for the plan (server dry run)\n" +
		"      50 of 100, 10/s, 6s left\n      100 of 100, 10/s\n      1 of 100\n      101 of 1000, 20/s, 45s left\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

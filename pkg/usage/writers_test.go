package usage_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// wrote is an entry of managedFields as text: "MANAGER VERSION HH:MM", and "Apply"
// or a subresource after it.
func wrote(t *testing.T, texts ...string) []metav1.ManagedFieldsEntry {
	t.Helper()
	entries := []metav1.ManagedFieldsEntry{{}} // One empty entry clears the list.
	for i, text := range texts {
		words := strings.Fields(text)
		clock, err := time.Parse(time.RFC3339, "2026-11-30T"+words[2]+":00Z")
		if err != nil {
			t.Fatal(err)
		}
		entry := metav1.ManagedFieldsEntry{
			Manager: words[0], Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: testbed.CronTabGroup + "/" + words[1], Time: &metav1.Time{Time: clock},
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(`{"f:spec":{"f:field%d":{}}}`, i)),
		}
		for _, word := range words[3:] {
			if word == "Apply" {
				entry.Operation = metav1.ManagedFieldsOperationApply
			} else {
				entry.Subresource = word
			}
		}
		entries = append(entries[:i], entry)
	}
	return entries
}

// rows is evidence as text.
func rows(evidence []v1alpha1.UsageEvidence) []string {
	var lines []string
	for _, e := range evidence {
		line := fmt.Sprintf("%s: %s %s %s%s %d", e.Version, e.Source, e.Who, e.What, " "+e.Subresource, e.Count)
		if e.LastSeen != nil {
			line += " " + e.LastSeen.UTC().Format("15:04")
		}
		line += " " + string(e.Proves)
		if e.Stale {
			line += " stale"
		}
		lines = append(lines, strings.Join(strings.Fields(line), " ")+" ["+strings.Join(e.Examples, " ")+"]")
	}
	return lines
}

// TestWriters has objects whose managedFields a real server keeps, and tells who
// writes at a version from who did.
func TestWriters(t *testing.T) {
	t.Parallel()
	var lists atomic.Int64
	bed := start(t, testbed.InProcessOptions{Middleware: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.UserAgent() == "usage" && strings.HasSuffix(r.URL.Path, "/"+testbed.CronTabPlural) {
				lists.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	}})
	managed := [][]string{
		{
			"operator-a v1beta1 10:00", "two-clients v1beta1 10:00", "kubectl-edit v1beta1 10:00", "ties v1beta1 10:00", "ties v1 10:00",
			"kubectl-patch v1beta1 10:00", "kubectl-patch v1 11:00",
		},
		{"operator-a v1 11:00", "two-clients v1 09:00", "kubectl-edit v1 11:00", "kubectl-patch v1beta1 10:30", "back v1 08:00", "back v1beta1 12:00"},
		{"operator-a v1beta1 09:00 status", "two-clients v1 11:00", "applier v1beta1 07:00 Apply", "operator-a v1beta1 08:00"},
		{},
	}
	if err := testbed.CreateObjects(t.Context(), bed.Config(), testbed.CronTabResource("v1"), len(managed), testbed.ObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(bed.Config())
	if err != nil {
		t.Fatal(err)
	}
	for i, texts := range managed {
		bodies := []map[string]any{{"managedFields": wrote(t, texts...)}}
		if i == 0 {
			// By itself: a change beside managedFields makes the server add an entry.
			bodies = append([]map[string]any{{"annotations": map[string]string{
				"kubectl.kubernetes.io/last-applied-configuration": `{"apiVersion":"` + testbed.CronTabGroup + `/v1beta1","kind":"CronTab","spec":{"secret":1}}`,
			}}}, bodies...)
		}
		for _, metadata := range bodies {
			body, err := json.Marshal(map[string]any{"metadata": metadata})
			if err != nil {
				t.Fatal(err)
			}
			_, err = objects.Resource(testbed.CronTabResource("v1")).Namespace("default").Patch(t.Context(), fmt.Sprintf("object-%06d", i), types.MergePatchType, body, metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	config := bed.Config()
	config.UserAgent = "usage"
	writers := &usage.Writers{Client: client(t, config)}
	target := usage.Target{CRD: crd.Live(testbed.CronTabs("v1beta1", "v1")), Versions: []string{"v1beta1"}}
	evidence, unlooked, err := writers.Collect(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"v1beta1: managed-fields applier apply 1 07:00 use [default/object-000002]",
		"v1beta1: managed-fields back write 1 12:00 use [default/object-000001]",
		// Of kubectl, only the same object tells.
		"v1beta1: managed-fields kubectl-edit write 1 10:00 use [default/object-000000]",
		"v1beta1: managed-fields kubectl-patch write 1 10:30 use [default/object-000001]",
		"v1beta1: managed-fields kubectl-patch write 1 10:00 past use stale [default/object-000000]",
		// It wrote all at v1 after all at v1beta1; but never the status at v1.
		"v1beta1: managed-fields operator-a write 2 10:00 past use stale [default/object-000000 default/object-000002]",
		"v1beta1: managed-fields operator-a write status 1 09:00 use [default/object-000002]",
		"v1beta1: managed-fields ties write 1 10:00 use [default/object-000000]",
		"v1beta1: managed-fields two-clients write 1 10:00 use [default/object-000000]",
		"v1beta1: last-applied client-side apply apply 1 past use [default/object-000000]",
	}
	if diff := cmp.Diff(want, rows(evidence)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(unlooked) != 1 || !strings.Contains(unlooked[0].Why, "1 of 4 objects have no managedFields") || unlooked[0].Optional {
		t.Errorf("unlooked %+v", unlooked)
	}
	if count, known := writers.Objects(testbed.CronTabCRD); count != 4 || !known {
		t.Errorf("%d objects, known: %t", count, known)
	}
	if lists.Load() != 1 {
		t.Errorf("%d lists, want 1", lists.Load())
	}
	// Both versions in one pass.
	target.Versions = []string{"v1", "v1beta1"}
	if evidence, _, err = writers.Collect(t.Context(), target); err != nil || lists.Load() != 2 {
		t.Fatalf("%v after %d lists", err, lists.Load())
	}
	got := strings.Join(rows(evidence), "\n")
	for _, line := range append(want,
		"v1: managed-fields operator-a write 1 11:00 use [default/object-000001]",
		// The one that went back is not accused of v1.
		"v1: managed-fields back write 1 08:00 past use stale [default/object-000001]",
	) {
		if !strings.Contains(got, line) {
			t.Errorf("%q is not in\n%s", line, got)
		}
	}
}

// TestWritersAreBounded has more managers than are told apart: none is lost.
func TestWritersAreBounded(t *testing.T) {
	t.Parallel()
	bed := start(t, testbed.InProcessOptions{})
	const n = 1100
	err := testbed.CreateObjects(t.Context(), bed.Config(), testbed.CronTabResource("v1beta1"), 2, testbed.ObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(bed.Config())
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for i := range n {
		texts = append(texts, fmt.Sprintf("run-%d v1beta1 10:%02d Apply", i, i%60))
	}
	for i := range 2 { // A server keeps as many managers as apply.
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"managedFields": wrote(t, texts[i*n/2:(i+1)*n/2]...)}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = objects.Resource(testbed.CronTabResource("v1")).Namespace("default").Patch(t.Context(), fmt.Sprintf("object-%06d", i), types.MergePatchType, body, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	target := usage.Target{CRD: crd.Live(testbed.CronTabs("v1beta1", "v1")), Versions: []string{"v1beta1"}}
	evidence, _, err := (&usage.Writers{Client: client(t, bed.Config())}).Collect(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	more := evidence[len(evidence)-1]
	if len(evidence) != 1001 || more.Who != "more managers" || more.Count != 100 || more.LastSeen == nil {
		t.Errorf("%d rows, the last one %+v", len(evidence), more)
	}
}

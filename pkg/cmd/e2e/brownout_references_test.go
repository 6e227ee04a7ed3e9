package e2e_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestBrownoutReferences has children whose ownerReferences name the version before,
// while it is not served, and between two times.
func TestBrownoutReferences(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, kidGroup = "owners.example.com", "kids.example.com"
	name := b.brownoutScene(t, group)
	b.anything(t, kidGroup, "v1", "kids", "Kid")
	b.anything(t, kidGroup, "v1", "cats", "Cat")
	child := func(plural, kind, child string) {
		t.Helper()
		b.createIn(t, "v1", plural, "a", map[string]any{
			"apiVersion": kidGroup + "/v1", "kind": kind, "metadata": map[string]any{"name": child, "ownerReferences": []any{
				map[string]any{"apiVersion": group + "/v1beta1", "kind": "CronTab", "name": "own", "uid": "11111111-2222-3333-4444-555555555555"},
			}},
		})
	}
	remove := func(plural string, names ...string) {
		t.Helper()
		for _, name := range names {
			objects := b.objects(t).Resource(schema.GroupVersionResource{Group: kidGroup, Version: "v1", Resource: plural}).Namespace("a")
			if err := objects.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	child("kids", "Kid", "one")
	child("kids", "Kid", "two")
	refused := b.must(t, 3, "brownout", "v1beta1", name, "--for", "1s", "--allow-in-use", "--yes")
	contains(t, refused.stderr, "2 objects have an ownerReference to "+group+"/v1beta1 CronTab", "--allow-owner-references")
	b.wantNoBrownout(t, name, group)

	// Allowed, one goes, as the garbage collector makes it, and others come.
	done := make(chan result, 1)
	go func() {
		done <- b.run(t, "brownout", "v1beta1", name, "--for", "5s", "--allow-in-use", "--allow-owner-references", "--yes", "-o", "json")
	}()
	b.until(t, group, "v1beta1", false)
	remove("kids", "one")
	child("cats", "Cat", "three")
	child("cats", "Cat", "four")
	got := <-done
	if got.code != 2 {
		t.Fatal(got)
	}
	var report v1alpha1.Report
	decode(t, "json", got.stdout, &report)
	var rows []string
	for _, effect := range report.Brownout.Affected {
		rows = append(rows, effect.Resource+" "+effect.Name+": "+effect.What)
	}
	slices.Sort(rows)
	want := []string{
		"cats.kids.example.com a/four, a/three: 2 more than before have an ownerReference to v1beta1",
		"kids.kids.example.com a/one, a/two: 1 of 2 with an ownerReference to v1beta1 are gone",
	}
	if !slices.Equal(rows, want) || !slices.Contains(report.Brownout.Watched, "ownerReferences") {
		t.Errorf("%s\nwant\n%s\nwatched: %v", strings.Join(rows, "\n"), strings.Join(want, "\n"), report.Brownout.Watched)
	}

	// One that comes the first time keeps it from a second time.
	remove("kids", "two")
	remove("cats", "three", "four")
	go func() {
		done <- b.run(t, "brownout", "v1beta1", name, "--for", "3s", "--repeat", "2", "--every", "4s", "--allow-in-use", "--yes", "-o", "json")
	}()
	b.until(t, group, "v1beta1", false)
	child("cats", "Cat", "five")
	got = <-done
	if got.code != 3 {
		t.Fatal(got)
	}
	report = v1alpha1.Report{}
	decode(t, "json", got.stdout, &report)
	contains(t, report.Message, "1 object has an ownerReference to "+group+"/v1beta1 CronTab by now")
	if len(report.Brownout.Rounds) != 1 || !report.Brownout.Served || len(report.Brownout.Affected) != 1 {
		t.Errorf("%+v", report.Brownout)
	}
	b.wantNoBrownout(t, name, group)
}

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// planned returns the plan of a dry run.
func (b *bed) planned(t *testing.T, code int, args ...string) v1alpha1.Plan {
	t.Helper()
	var plan v1alpha1.Plan
	got := b.must(t, code, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(got.stdout), &plan); err != nil {
		t.Fatalf("%q: %v: %s", args, err, got)
	}
	return plan
}

// TestPlanCountsWhatIsSelected has plans for a part of the objects: they count that
// part, and say of how many; so does the rehearsal, which goes over nothing else.
func TestPlanCountsWhatIsSelected(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, n = "count.example.com", 20
	name := b.createCRD(t, crontabs(group, "v1beta1", "v1"))
	b.createObjects(t, group, "v1beta1", n, "a", "b", "c", "d")
	label := []byte(`{"metadata":{"labels":{"pick":"me"}}}`)
	for _, object := range []string{"object-000000", "object-000004", "object-000008"} {
		objects := b.objects(t).Resource(resource(group, "v1")).Namespace("a")
		if _, err := objects.Patch(t.Context(), object, types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.must(t, 0, "promote", "v1", name, "--until", "set-storage", "--yes")
	for _, dryRun := range []string{"client", "server"} {
		var inShards int64
		for _, test := range []struct {
			args []string
			want int64
		}{
			{[]string{"-n", "a"}, 5},
			{[]string{"-l", "pick=me"}, 3},
			{[]string{"-n", "a", "-l", "pick!=me"}, 2},
			{[]string{"--shard", "0/3"}, -1},
			{[]string{"--shard", "1/3"}, -1},
			{[]string{"--shard", "2/3"}, -1},
		} {
			plan := b.planned(t, 0, append([]string{"migrate", name, "--dry-run=" + dryRun}, test.args...)...)
			s := plan.Summary
			if s.Objects == nil || s.Total == nil || *s.Total != n || test.want >= 0 && *s.Objects != test.want {
				t.Errorf("%s %q: summary %+v", dryRun, test.args, s)
				continue
			}
			if test.want < 0 {
				inShards += *s.Objects
			}
			for _, step := range plan.Steps {
				if step.Objects != nil && *step.Objects != *s.Objects {
					t.Errorf("%s %q: %s of %d objects", dryRun, test.args, step.ID, *step.Objects)
				}
			}
			if dryRun == "server" && len(plan.Steps) > 0 && (s.Rehearsal == nil || s.Rehearsal.Total != *s.Objects || !s.Rehearsal.Complete) {
				t.Errorf("%q: rehearsal %+v", test.args, s.Rehearsal)
			}
		}
		if inShards != n {
			t.Errorf("%s: the shards have %d objects in all", dryRun, inShards)
		}
	}
	text := b.must(t, 0, "migrate", name, "-n", "a", "--dry-run=server").stdout
	contains(t, text, "storedVersions [v1beta1, v1], 20 objects", "rewrite the objects in the namespace a at v1", "about 5 of 20 objects")
	// All of them are counted where all are rewritten.
	if s := b.planned(t, 0, "migrate", name, "--dry-run=server").Summary; s.Objects == nil || *s.Objects != n || s.Total != nil {
		t.Errorf("summary of all: %+v", s)
	}
}

// TestSelectionOfNothing has parts without an object. A label selector that matches
// nothing is misspelt; a namespace, a shard, and one CRD of several may be empty.
func TestSelectionOfNothing(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const n = 6
	name, other := b.scene(t, "none.example.com", n), b.scene(t, "none.other.example.com", n)
	for _, one := range []string{name, other} {
		b.must(t, 0, "promote", "v1", one, "--until", "set-storage", "--yes")
	}
	before := b.revisions(t)
	for _, args := range [][]string{
		{name, "-l", "team=storage"}, {name, "-l", "team=storage", "-n", "a"}, {name, other, "-l", "team=storage"}, {"--all", "-l", "team=storage"},
	} {
		for _, more := range [][]string{{"--yes"}, {"--dry-run=client"}, {"--dry-run=server"}, {"--yes", "-o", "json"}} {
			got := b.must(t, 1, append(append([]string{"migrate"}, args...), more...)...)
			contains(t, got.stderr, "there are no objects", "labels that match team=storage", name)
		}
	}
	// This server has no namespaces of its own, and takes any.
	got := b.must(t, 0, "migrate", name, "-n", "nowhere", "--yes")
	contains(t, got.stdout, name+" unchanged")
	contains(t, got.stderr, name+" has no objects in the namespace nowhere: nothing is rewritten", "Nothing to do")
	if plan := b.planned(t, 0, "migrate", name, "-n", "nowhere", "--dry-run=server"); len(plan.Steps) > 0 || plan.Complete || *plan.Summary.Objects != 0 || *plan.Summary.Total != n {
		t.Errorf("plan: %+v", plan)
	}
	empty := ""
	for i := range 50 {
		shard := fmt.Sprintf("%d/50", i)
		if *b.planned(t, 0, "migrate", name, "--shard", shard, "--dry-run=client").Summary.Objects == 0 {
			empty = shard
			break
		}
	}
	contains(t, b.must(t, 0, "migrate", name, "--shard", empty, "--yes").stdout, name+" unchanged")
	for _, bad := range []string{"../a", "A", "a/b"} {
		contains(t, b.must(t, 1, "migrate", name, "-n", bad, "--yes").stderr, "cannot be the name of a namespace")
		contains(t, b.must(t, 1, "migrate", name, "--namespaces-first", "a,"+bad, "--yes").stderr, "cannot be the name of a namespace")
	}
	b.wantUnwritten(t, before)

	objects := b.objects(t).Resource(resource("none.example.com", "v1")).Namespace("a")
	if _, err := objects.Patch(t.Context(), "object-000000", types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"storage"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	got = b.must(t, 0, "migrate", "--all", "-l", "team=storage", "--yes")
	contains(t, got.stdout, name+" partly migrated", other+" unchanged")
}

// TestNamespaceOfClusterScopedObjects has a namespace for objects that are in none:
// named, that is a mistake; among all CRDs, there is nothing to do for that one.
func TestNamespaceOfClusterScopedObjects(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	c := crontabs("wide.example.com", "v1beta1", "v1")
	c.Spec.Scope = apiextensionsv1.ClusterScoped
	wide, name := b.createCRD(t, c), b.scene(t, "narrowed.example.com", 4)
	b.createOne(t, newCronTab("wide.example.com", "v1beta1", "", "one", 1))
	for _, one := range []string{wide, name} {
		b.must(t, 0, "promote", "v1", one, "--until", "set-storage", "--yes")
	}
	for _, more := range [][]string{{"--yes"}, {"--dry-run=client"}} {
		got := b.must(t, 1, append([]string{"migrate", wide, "-n", "a"}, more...)...)
		contains(t, got.stderr, "the objects of "+wide+" are in no namespace: --namespace does not fit")
	}
	got := b.must(t, 0, "migrate", "--all", "-n", "a", "--yes")
	contains(t, got.stdout, name+" partly migrated")
	if strings.Contains(got.stdout+got.stderr, wide) {
		t.Errorf("%s", got)
	}
	b.wantStored(t, "wide.example.com", map[string]int{"v1beta1": 1})
}

// TestFact14SelectorAndColdCache is fact 14 with a label selector: the server says
// 429 "storage is (re)initializing" for as long as it may not fill its cache, and a
// list that goes past it works. The plan counts, and the run ends.
func TestFact14SelectorAndColdCache(t *testing.T) {
	t.Parallel()
	var cold atomic.Bool
	var refused atomic.Int64
	b := start(t, testbed.InProcessOptions{Middleware: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if cold.Load() && r.Method == http.MethodGet && r.URL.Query().Has("labelSelector") && strings.HasPrefix(r.UserAgent(), "kubectl-crdver") {
				refused.Add(1)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":429,"reason":"TooManyRequests",` +
					`"message":"storage is (re)initializing","details":{"retryAfterSeconds":1}}`))
				return
			}
			next.ServeHTTP(w, r)
		})
	}})
	const group, n = "cold.example.com", 8
	name := b.scene(t, group, n)
	b.must(t, 0, "promote", "v1", name, "--until", "set-storage", "--yes")
	objects := b.objects(t).Resource(resource(group, "v1beta1")).Namespace("a")
	if _, err := objects.Patch(t.Context(), "object-000000", types.MergePatchType, []byte(`{"metadata":{"labels":{"pick":"me"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	cold.Store(true)
	if s := b.planned(t, 0, "migrate", name, "-l", "pick=me", "--dry-run=client").Summary; s.Objects == nil || *s.Objects != 1 {
		t.Errorf("summary: %+v", s)
	}
	b.must(t, 0, "migrate", name, "-l", "pick=me", "--yes")
	if refused.Load() == 0 || refused.Load() > 60 {
		t.Errorf("%d lists were answered 429", refused.Load())
	}
}

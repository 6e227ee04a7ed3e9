//go:build controlplane

package fulltest_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func selectionScenarios() []scenario {
	return []scenario{{name: "namespaces", run: testNamespaces}}
}

// testNamespaces has a namespace that is not there, one that is empty, and a user
// who may not see which there are.
func testNamespaces(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "namespaces.example.com", 6, "v1beta1", "v1")
	if err := testbed.CreateNamespaces(t.Context(), bed.Config(), "hollow"); err != nil {
		t.Fatal(err)
	}
	s.run(t, "promote", "v1", s.name, "--until", "set-storage", "--yes").want(t, 0)
	before := s.snapshot(t)
	for _, args := range [][]string{
		{"migrate", s.name, "-n", "othre"}, {"migrate", s.name, "-n", "othre", "-l", "a=b"}, {"migrate", s.name, "--namespaces-first", "other,othre"},
		{"promote", "v1", s.name, "--namespaces-first", "othre"}, {"migrate", s.name, "-n", "othre", "--shard", "0/2"},
	} {
		for _, more := range [][]string{{"--yes"}, {"--dry-run=client"}, {"--dry-run=server"}, {"--yes", "-o", "json"}} {
			r := s.run(t, append(args, more...)...)
			r.want(t, 1, "there is no namespace othre", "kubectl get namespaces")
			if r.stdout != "" {
				t.Errorf("%q: stdout %s", r.args, r.stdout)
			}
		}
	}
	s.run(t, "migrate", s.name, "-n", "hollow", "--yes").want(t, 0, s.name+" has no objects in the namespace hollow", "unchanged")
	s.unwritten(t, before)

	config, err := bed.User(t.Context(), "no-namespaces", slices.Collect(maps.Values(rights(s.group)))...)
	if err != nil {
		t.Fatal(err)
	}
	blind := kubeconfigOf(t, config)
	r := s.runAs(t, blind, "migrate", s.name, "-n", "othre", "--yes")
	r.want(t, 0, "whether there is such a namespace is not known", `cannot get resource "namespaces"`, "has no objects in the namespace othre", "unchanged")
	s.unwritten(t, before)
	r = s.runAs(t, blind, "migrate", s.name, "-n", "other", "--dry-run=server", "-o", "json")
	if plan := decode[v1alpha1.Plan](t, r); plan.Summary.Objects == nil || *plan.Summary.Objects != 3 || *plan.Summary.Total != 6 || len(plan.Warnings) == 0 {
		t.Errorf("plan: %+v", plan)
	}
	s.runAs(t, blind, "migrate", s.name, "-n", "other", "--yes").want(t, 0, "3 objects", "partly migrated")
	s.stored(t, map[string]int{"v1": 3, "v1beta1": 3})
	s.run(t, "migrate", s.name, "--namespaces-first", "other", "--yes").want(t, 0)
	s.stored(t, map[string]int{"v1": 6})
}

// loseOld trims and removes v1beta1 by hand, with all objects at it.
func (s *subject) loseOld(t *testing.T) {
	t.Helper()
	s.flip(t)
	_, err := s.crds(t).Patch(t.Context(), s.name, types.MergePatchType, []byte(`{"status":{"storedVersions":["v1"]}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	s.drop(t)
	eventually(t, "the objects cannot be read", 2*time.Minute, func() bool {
		_, err := s.objects(t, "v1", "").List(t.Context(), metav1.ListOptions{Limit: 1})
		return err != nil
	})
}

// testRescueRights takes one right after the other away: rescue says which one is
// missing before it writes anything, and does with exactly these.
func testRescueRights(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "rescue-rights.example.com", 3, "v1beta1", "v1")
	s.loseOld(t)
	all := rights(s.group)
	before := s.snapshot(t)
	for missing := range all {
		t.Run(missing, func(t *testing.T) {
			rules := maps.Clone(all)
			delete(rules, missing)
			user := "rescue-without-" + strings.NewReplacer(" ", "-", "/", "-").Replace(missing)
			config, err := bed.User(t.Context(), user, slices.Collect(maps.Values(rules))...)
			if err != nil {
				t.Fatal(err)
			}
			kubeconfig := kubeconfigOf(t, config)
			want := missing
			switch {
			case strings.Contains(missing, crds):
				want += "." + apiextensions + " " + s.name
			case strings.HasPrefix(missing, "list "): // There is no plan without.
				want = `cannot list resource "crontabs"`
			}
			for _, more := range []string{"--yes", "--dry-run=client", "--dry-run=server"} {
				s.runAs(t, kubeconfig, "rescue", s.name, more).want(t, 3, want)
			}
			s.unwritten(t, before)
		})
	}
	config, err := bed.User(t.Context(), "rescue-least", slices.Collect(maps.Values(all))...)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := kubeconfigOf(t, config)
	// Whether children name the version nobody can tell without listing everything.
	s.runAs(t, kubeconfig, "rescue", s.name, "--yes").want(t, 3, "--allow-owner-references")
	s.unwritten(t, before)
	s.runAs(t, kubeconfig, "rescue", s.name, "--allow-owner-references", "--yes").want(t, 0, "rescued")
	s.stored(t, map[string]int{"v1": 3})
	s.listable(t)
}

//go:build controlplane

package fulltest_test

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func accessScenarios() []scenario {
	return []scenario{
		{name: "missing rights", run: testMissingRights},
		{name: "reader", run: testReader},
		{name: "denied list", run: testDeniedList},
		{name: "least rights", run: testLeastRights},
	}
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

const (
	apiextensions = "apiextensions.k8s.io"
	crds          = "customresourcedefinitions"
)

// rights are those that promote needs, by the words of the plan.
func rights(group string) map[string]rbacv1.PolicyRule {
	return map[string]rbacv1.PolicyRule{
		"get " + crds:               rule(apiextensions, crds, "get"),
		"patch " + crds:             rule(apiextensions, crds, "patch"),
		"patch " + crds + "/status": rule(apiextensions, crds+"/status", "patch"),
		"list crontabs." + group:    rule(group, testbed.CronTabPlural, "list"),
		"get crontabs." + group:     rule(group, testbed.CronTabPlural, "get"),
		"patch crontabs." + group:   rule(group, testbed.CronTabPlural, "patch"),
	}
}

// testMissingRights takes one right after the other away: promote says which one
// is missing before it writes anything.
func testMissingRights(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "missing-rights.example.com", 5, "v1beta1", "v1")
	all := rights(s.group)
	for missing := range all {
		t.Run(strings.ReplaceAll(missing, " ", "-"), func(t *testing.T) {
			t.Parallel()
			var rules []rbacv1.PolicyRule
			for name, one := range all {
				if name != missing {
					rules = append(rules, one)
				}
			}
			config, err := bed.User(t.Context(), "without-"+strings.NewReplacer(" ", "-", "/", "-").Replace(missing), rules...)
			if err != nil {
				t.Fatal(err)
			}
			want := missing
			if strings.Contains(missing, crds) {
				want += "." + apiextensions + " " + s.name
			}
			kubeconfig, before := kubeconfigOf(t, config), s.snapshot(t)
			s.runAs(t, kubeconfig, "promote", "v1", s.name, "--yes").want(t, 3, want)
			s.runAs(t, kubeconfig, "promote", "v1", s.name, "--dry-run=client").want(t, 3, want)
			s.runAs(t, kubeconfig, "promote", "v1", s.name, "--dry-run=server").want(t, 3, want)
			s.unwritten(t, before)
		})
	}
}

// testReader has the rights that reading commands need and no others.
func testReader(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "reader.example.com", 3, "v1beta1", "v1")
	config, err := bed.User(t.Context(), "crd-reader", rule(apiextensions, crds, "get", "list"))
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := kubeconfigOf(t, config)
	for _, args := range [][]string{
		{"sort"}, {"sort", s.name}, {"status"}, {"status", s.name}, {"status", s.name, "-o", "json"}, {"status", "-o", "wide"},
	} {
		r := s.runAs(t, kubeconfig, args...)
		r.want(t, 0, s.name, "v1beta1")
		r.lacks(t, "discovery could not be read")
	}
}

// testDeniedList is a user who may not list the objects: that there are none is
// never said.
func testDeniedList(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "denied-list.example.com", 3, "v1beta1", "v1")
	config, err := bed.User(t.Context(), "no-lister",
		rule(apiextensions, crds, "get", "list", "patch"), rule(apiextensions, crds+"/status", "patch"),
		rule(s.group, testbed.CronTabPlural, "get", "patch"), rule("storagemigration.k8s.io", "storageversionmigrations", "list"))
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := kubeconfigOf(t, config)
	r := s.runAs(t, kubeconfig, "status", s.name)
	r.want(t, 0, "unknown: ", "cannot list resource")
	r = s.runAs(t, kubeconfig, "status")
	r.want(t, 0)
	for line := range strings.Lines(r.stdout) {
		if strings.Contains(line, s.name) && !slices.Contains(strings.Fields(line), "<unknown>") {
			t.Errorf("status says %q", line)
		}
	}
	item := decode[v1alpha1.StatusList](t, s.runAs(t, kubeconfig, "status", s.name, "-o", "json")).Items[0]
	if item.Objects != nil || item.ObjectsError == "" {
		t.Errorf("status says objects %v, error %q", item.Objects, item.ObjectsError)
	}
	before := s.snapshot(t)
	for _, args := range [][]string{{"promote", "v1"}, {"migrate", "--force"}} {
		r := s.runAs(t, kubeconfig, append(args, s.name, "--yes")...)
		r.want(t, 3, "list crontabs."+s.group)
		r.lacks(t, "0 objects", "Nothing to do")
	}
	s.unwritten(t, before)
}

// testLeastRights promotes and retires with exactly the rights that the plans
// name.
func testLeastRights(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "least-rights.example.com", 5, "v1beta1", "v1")
	var rules []rbacv1.PolicyRule
	for _, one := range rights(s.group) {
		rules = append(rules, one)
	}
	config, err := bed.User(t.Context(), "least", rules...)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := kubeconfigOf(t, config)
	s.runAs(t, kubeconfig, "promote", "v1", s.name, "--yes").want(t, 0, "promoted to v1")
	s.stored(t, map[string]int{"v1": 5})

	before := s.snapshot(t)
	s.runAs(t, kubeconfig, "retire", "v1beta1", s.name, "--yes").want(t, 3, "not all resources could be searched", "configmaps: Forbidden")
	s.unwritten(t, before)
	s.runAs(t, kubeconfig, "retire", "v1beta1", s.name, "--yes", "--allow-owner-references").want(t, 0, "retired v1beta1")
	s.stored(t, map[string]int{"v1": 5})
}

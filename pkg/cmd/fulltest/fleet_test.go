//go:build controlplane

package fulltest_test

import (
	"os"
	"path/filepath"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// fleet are three control planes: one is migrated, one is not, and one is stopped.
type fleet struct {
	eu, us, asia *subject
	// kubeconfig has contexts of all, in several ways.
	kubeconfig string
}

const fleetGroup = "fleet.example.com"

// startFleet starts the three.
func startFleet(t *testing.T) fleet {
	t.Helper()
	asia := fleetMember(t)
	asia.bed.Shutdown(t.Context())
	f := fleet{asia: asia, eu: fleetMember(t), us: fleetMember(t)}
	f.eu.leave(t)

	contexts := map[string]*rest.Config{
		"eu": f.eu.bed.Config(), "us": f.us.bed.Config(), "asia": asia.bed.Config(), "eu-again": f.eu.bed.Config(),
	}
	// The same cluster at another address.
	proxy, err := testbed.StartProxy(t.Context(), f.eu.bed.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	contexts["eu-balancer"] = proxy.Config()
	// One who may not list CRDs, one who may, and one who may read what it is about.
	for name, rules := range map[string][]rbacv1.PolicyRule{
		"nobody": nil,
		"lister": {rule(apiextensions, crds, "get", "list")},
		"reader": {rule(apiextensions, crds, "get", "list"), rule(fleetGroup, testbed.CronTabPlural, "list")},
	} {
		for place, bed := range map[string]*testbed.Full{"eu": f.eu.bed, "us": f.us.bed} {
			config, err := bed.User(t.Context(), name, rules...)
			if err != nil {
				t.Fatal(err)
			}
			contexts[place+"-"+name] = config
		}
	}
	f.kubeconfig = filepath.Join(t.TempDir(), "fleet")
	if err := testbed.WriteKubeconfigs(f.kubeconfig, contexts); err != nil {
		t.Fatal(err)
	}
	return f
}

// fleetMember starts a control plane with objects that are stored at v1beta1 and
// that nobody wrote at it.
func fleetMember(t *testing.T) *subject {
	t.Helper()
	bed := startFull(t, testbed.FullOptions{})
	s := newSubject(t, bed, fleetGroup, 0, "v1beta1", "v1")
	s.create(t, "v1", 3)
	return s
}

// leave takes the life of v1beta1 as far as the cluster is concerned.
func (s *subject) leave(t *testing.T) {
	t.Helper()
	s.run(t, "promote", "v1", s.name, "--yes").want(t, 0)
	s.run(t, "retire", "v1beta1", s.name, "--until", "unserve", "--yes").want(t, 0)
}

// ask runs a command on some of the contexts.
func (f fleet) ask(t *testing.T, code int, contexts string, args ...string) result {
	t.Helper()
	r := f.eu.runAs(t, f.kubeconfig, append(args, "--contexts", contexts, "--cluster-timeout", "20s")...)
	r.want(t, code)
	return r
}

// rows checks that a table has rows that begin with these words.
func (r result) rows(t *testing.T, rows ...string) {
	t.Helper()
	for _, missing := range testbed.MissingRows(r.stdout, rows...) {
		t.Errorf("%q has no row %q\nstdout:\n%s\nstderr:\n%s", r.args, missing, r.stdout, r.stderr)
	}
}

// TestFleet asks control planes of which one is stopped and one is not migrated
// (must show 5), in every way that leads to them.
func TestFleet(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	const all = "eu,us,asia"
	t.Run("status", f.testStatus)
	t.Run("rights", f.testRights)
	t.Run("same", f.testSame)
	t.Run("validate", func(t *testing.T) {
		f.ask(t, 1, all, "validate").rows(t, "asia <unknown>",
			"eu crontabs.fleet.example.com info version-could-be-removed", "us crontabs.fleet.example.com info storage-version-not-preferred")
		f.ask(t, 0, "eu,us", "validate")
		f.ask(t, 2, "eu,us", "validate", "--fail-on", "info")
	})
	t.Run("usage", func(t *testing.T) {
		r := f.ask(t, 1, all, "usage", "v1beta1", f.eu.name)
		r.rows(t, "asia <unknown>", "eu crontabs.fleet.example.com v1beta1", "us crontabs.fleet.example.com v1beta1")
		f.us.put(t, f.us.token(t, "old-client"), "v1beta1", "object-000000", func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"by": "curl"}) })
		r = f.ask(t, 2, "eu,us", "usage", "v1beta1", f.eu.name)
		r.rows(t, "us crontabs.fleet.example.com v1beta1 in use manager curl used it", "us crontabs.fleet.example.com v1beta1 manager curl write 1 object ")
		r.lacks(t, "eu crontabs.fleet.example.com v1beta1 in use")
		f.ask(t, 0, "eu", "usage", "v1beta1", f.eu.name)
	})
	t.Run("preflight", func(t *testing.T) {
		path := f.next(t)
		r := f.ask(t, 1, all, "preflight", "-f", path)
		r.rows(t, "asia <unknown>", "eu crontabs.fleet.example.com ok", "us crontabs.fleet.example.com ok after 2 steps")
		f.ask(t, 2, "eu,us", "preflight", "-f", path)
		f.ask(t, 0, "eu", "preflight", "-f", path)
	})
	t.Run("can-remove", f.testCanRemove)
}

// next is the manifest of the release without v1beta1.
func (f fleet) next(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "next.yaml")
	manifest, err := yaml.Marshal(cronTabs(fleetGroup, "v1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (f fleet) testStatus(t *testing.T) {
	r := f.ask(t, 1, "eu,us,asia", "status")
	r.rows(t, "asia <unknown>", "eu crontabs.fleet.example.com v1 v1 v1 v1beta1 None 3 retire v1beta1 <none>",
		"us crontabs.fleet.example.com v1,v1beta1 v1beta1 v1beta1 <none> None 3 promote v1 <none>")
	r.want(t, 1, "was refused (is it the right host and port", "error: 1 of 3 clusters could not be asked: asia\n")
	f.ask(t, 0, "us,eu", "status")
}

// testRights has contexts of users with different rights.
func (f fleet) testRights(t *testing.T) {
	// One who may not list CRDs hides no other cluster.
	r := f.ask(t, 1, "eu-nobody,us", "status")
	r.rows(t, "eu-nobody <unknown>", "us crontabs.fleet.example.com v1,v1beta1 v1beta1 v1beta1 <none> None 3 promote v1")
	r.want(t, 1, `User "nobody" cannot list resource "customresourcedefinitions"`, "error: 1 of 2 clusters could not be asked: eu-nobody\n")
	// Who may list CRDs and no objects is told all but their number; and that what could
	// tell whether storedVersions is right may not be read.
	f.ask(t, 0, "eu-lister,us-reader", "status").rows(t,
		"eu-lister crontabs.fleet.example.com v1 v1 v1? v1beta1 None <unknown> migrate", "us-reader crontabs.fleet.example.com v1,v1beta1 v1beta1 v1beta1? <none> None 3 promote v1")
	f.ask(t, 0, "us-lister", "usage", "v1beta1", f.us.name).rows(t,
		"us-lister crontabs.fleet.example.com v1beta1 probably unused nothing was found, but managed-fields could not be looked at", "managed-fields: you may not list crontabs.fleet.example.com")
	// What may not be read is no proof: the cluster that is clear is not, for them.
	for _, who := range []string{"eu-lister", "eu-reader"} {
		r := f.ask(t, 2, who, "can-remove", "v1beta1", f.eu.name)
		r.rows(t, who+" crontabs.fleet.example.com v1beta1 unknown false probably unused blocked")
		r.want(t, 2, "cannot be trusted: in-tree storage version migrations could not be read")
	}
	f.ask(t, 1, "eu-nobody", "can-remove", "v1beta1", f.eu.name).rows(t,
		"eu-nobody <unknown> <unknown> <unknown> <unknown> <unknown> unknown reading the CRDs: ", "Not known whether it may leave the manifest (1 cluster: 1 unknown).")
	// With somebody who may, the cluster is asked as that one, whatever the order is.
	f.ask(t, 0, "eu-nobody,eu-lister,eu,us", "status").rows(t,
		"eu-nobody <none> <none> <none> <none> <none> <none> <none> <none> the same cluster as eu",
		"eu-lister <none> <none> <none> <none> <none> <none> <none> <none> the same cluster as eu",
		"eu crontabs.fleet.example.com v1 v1 v1 v1beta1 None 3 retire v1beta1 <none>")
	f.ask(t, 0, "eu-nobody,eu-lister,eu", "can-remove", "v1beta1", f.eu.name).rows(t,
		"eu crontabs.fleet.example.com v1beta1 no (verified) false probably unused clear <none>", "As far as these clusters are concerned, it may leave the manifest (1 cluster: 1 clear).")
	f.ask(t, 2, "us-nobody,us-lister", "can-remove", "v1beta1", f.eu.name).rows(t,
		"us-nobody <none> <none> <none> <none> <none> <none> the same cluster as us-lister", "us-lister crontabs.fleet.example.com v1beta1 yes true probably unused blocked <none>")
}

// testSame has contexts that lead to the same cluster.
func (f fleet) testSame(t *testing.T) {
	const note = "its kube-system has the UID of that of eu: it is the same cluster at another address, or was restored from its backup"
	f.ask(t, 0, "eu,eu-again,eu-balancer", "status").rows(t,
		"eu crontabs.fleet.example.com v1 v1 v1 v1beta1 None 3 retire v1beta1 <none>",
		"eu-again <none> <none> <none> <none> <none> <none> <none> <none> the same cluster as eu",
		"eu-balancer crontabs.fleet.example.com v1 v1 v1 v1beta1 None 3 retire v1beta1 "+note)
	f.ask(t, 0, "eu,eu-balancer,eu-again", "can-remove", "v1beta1", f.eu.name).rows(t,
		"eu-balancer crontabs.fleet.example.com v1beta1 no (verified) false probably unused clear <none>", "eu-balancer: "+note,
		"As far as these clusters are concerned, it may leave the manifest (2 clusters: 2 clear).")
	report := decode[v1alpha1.FleetReport](t, f.ask(t, 1, "eu,us,asia,eu-again", "status", "-o", "json"))
	if want := (v1alpha1.FleetSummary{Clusters: 3, Answered: 2, Failed: 1, Same: 1}); report.Summary != want {
		t.Errorf("summary %+v, want %+v", report.Summary, want)
	}
}

// testCanRemove goes on until the version may leave: once the one that was stopped
// is up again, and has migrated, too.
func (f fleet) testCanRemove(t *testing.T) {
	const (
		all  = "eu,us,asia"
		rule = " A version may leave the manifest only when every cluster that served it has migrated its objects and trimmed status.storedVersions."
		eu   = "eu crontabs.fleet.example.com v1beta1 no (verified) false probably unused clear"
		us   = "us crontabs.fleet.example.com v1beta1 yes true in use blocked"
	)
	canRemove := func(code int, contexts string, rows ...string) {
		t.Helper()
		f.ask(t, code, contexts, "can-remove", "v1beta1", f.eu.name).rows(t, rows...)
	}
	promoteUS := "kubectl crdver promote v1 crontabs.fleet.example.com --kubeconfig " + f.kubeconfig + " --context us"
	canRemove(1, all, eu, us, "asia <unknown> <unknown> <unknown> <unknown> <unknown> unknown the connection to the server ", promoteUS,
		"It must not leave the manifest yet (3 clusters: 1 clear, 1 blocked, 1 unknown)."+rule)
	canRemove(1, "eu,asia", eu, "Not known whether it may leave the manifest (2 clusters: 1 clear, 1 unknown)."+rule)
	canRemove(2, "eu,us", eu, us, "It must not leave the manifest yet (2 clusters: 1 clear, 1 blocked)."+rule)
	canRemove(0, "eu", eu, "As far as these clusters are concerned, it may leave the manifest (1 cluster: 1 clear)."+rule)

	f.us.run(t, "promote", "v1", f.us.name, "--yes").want(t, 0)
	f.us.run(t, "retire", "v1beta1", f.us.name, "--yes").want(t, 0)
	canRemove(1, all, eu, "us crontabs.fleet.example.com v1beta1 no <none> <none> not concerned",
		"Not known whether it may leave the manifest (3 clusters: 1 clear, 1 not concerned, 1 unknown)."+rule)
	if err := f.asia.bed.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	canRemove(2, all, "asia crontabs.fleet.example.com v1beta1 yes true ", "It must not leave the manifest yet (3 clusters: 1 clear, 1 blocked, 1 not concerned)."+rule)
	f.asia.leave(t)
	canRemove(0, all, "asia crontabs.fleet.example.com v1beta1 no (verified) false probably unused clear",
		"As far as these clusters are concerned, it may leave the manifest (3 clusters: 2 clear, 1 not concerned)."+rule)
}

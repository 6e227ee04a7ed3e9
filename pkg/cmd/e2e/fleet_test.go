package e2e_test

import (
	"encoding/json"
	"maps"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// kubeconfigs writes a kubeconfig with several contexts.
func kubeconfigs(t *testing.T, contexts map[string]*rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet")
	if err := testbed.WriteKubeconfigs(path, contexts); err != nil {
		t.Fatal(err)
	}
	return path
}

// nowhere leads to a server that is down, or with mute, to one that takes
// connections and never says a word.
func nowhere(t *testing.T, mute bool) *rest.Config {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if mute {
		t.Cleanup(func() { _ = listener.Close() })
	} else {
		_ = listener.Close()
	}
	return &rest.Config{Host: "https://" + listener.Addr().String(), TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

// migrated creates a CRD whose objects went from v1beta1 to v1, and that no longer
// serves v1beta1.
func (b *bed) migrated(t *testing.T, group string) string {
	t.Helper()
	name := b.createCRD(t, crontabs(group, "v1beta1", "v1"))
	// Through v1: managedFields do not name v1beta1.
	b.createObjects(t, group, "v1", 3, "a")
	b.must(t, 0, "promote", "v1", name, "--yes")
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
		for i := range c.Spec.Versions {
			c.Spec.Versions[i].Served = c.Spec.Versions[i].Name == "v1"
		}
	})
	return name
}

// fleet are two clusters, of which one is migrated and one is not.
type fleet struct {
	eu, us *bed
	crd    string
	// up has those that answer, and another context of the first; all also has one
	// that is down, and mute one that says nothing, too.
	up, all, mute string
}

func startFleet(t *testing.T) fleet {
	t.Helper()
	const group = "fleet.example.com"
	f := fleet{eu: start(t, testbed.InProcessOptions{}), us: start(t, testbed.InProcessOptions{})}
	f.crd = f.eu.migrated(t, group)
	f.us.scene(t, group, 2)
	up := map[string]*rest.Config{"eu": f.eu.Config(), "us": f.us.Config(), "eu-again": f.eu.Config()}
	all := maps.Clone(up)
	all["asia"] = nowhere(t, false)
	mute := maps.Clone(all)
	mute["mute"] = nowhere(t, true)
	f.up, f.all, f.mute = kubeconfigs(t, up), kubeconfigs(t, all), kubeconfigs(t, mute)
	return f
}

// ask runs a command that has to end with a code.
func (f fleet) ask(t *testing.T, code int, kubeconfig string, args ...string) result {
	t.Helper()
	args = append(args, "--kubeconfig", kubeconfig, "--cluster-timeout", "5s")
	if args[0] == "usage" || args[0] == "can-remove" {
		// All servers of this process share the registry of metrics.
		args = append(args, "--skip", "metrics")
	}
	got := execute(t.Context(), neverRead{t}, args...)
	if got.code != code {
		t.Errorf("kubectl crdver %s: want exit code %d, got %s", strings.Join(args, " "), code, got)
	}
	return got
}

// fields makes sure of the lines of a table, whatever its widths are.
func fields(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, missing := range testbed.MissingRows(text, lines...) {
		t.Errorf("no line %q in:\n%s", missing, text)
	}
}

// TestFleet asks many clusters, and the ones that cannot be asked hide no other.
func TestFleet(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	const dead = "asia <unknown>"
	t.Run("status", func(t *testing.T) {
		got := f.ask(t, 1, f.mute, "status", "--all-contexts")
		fields(t, got.stdout, dead, "mute <unknown>", "eu crontabs.fleet.example.com v1 v1 v1 <none> None 3 retire v1beta1 <none>",
			"us crontabs.fleet.example.com v1,v1beta1 v1beta1 v1beta1 <none> None 2 promote v1 <none>",
			"eu-again <none> <none> <none> <none> <none> <none> <none> <none> the same cluster as eu")
		contains(t, got.stdout, "was refused (is it the right host and port", "no answer within 5s (--cluster-timeout)")
		contains(t, got.stderr, "error: 2 of 4 clusters could not be asked: asia, mute\n")
		// Without the dead ones, nothing is wrong; the order is that of the patterns.
		got = f.ask(t, 0, f.up, "status", "--contexts", "u?,eu", f.crd, "--sort-by", "{.objects}")
		if lines := strings.Split(got.stdout, "\n"); !strings.HasPrefix(lines[1], "us ") || !strings.HasPrefix(lines[2], "eu ") || strings.Contains(got.stdout, "PROBLEM") {
			t.Error(got)
		}
		got = f.ask(t, 3, f.up, "status", f.crd, "--contexts", "*", "--require", "v1beta1")
		contains(t, got.stderr, "eu: "+f.crd+": v1beta1 is in spec.versions but not served")
	})
	t.Run("sort", func(t *testing.T) {
		got := f.ask(t, 1, f.all, "sort", "--all-contexts", "-o", "custom-columns=C:.context,V:.name,D:.kubectlDefault,P:.problem")
		fields(t, got.stdout, "eu v1 true <none>", "eu v1beta1 false <none>", "us v1 true <none>", "asia <none> <none> the connection to")
	})
	t.Run("validate", func(t *testing.T) {
		got := f.ask(t, 1, f.all, "validate", "--all-contexts")
		fields(t, got.stdout, dead, "eu crontabs.fleet.example.com info version-could-be-removed",
			"us crontabs.fleet.example.com info storage-version-not-preferred")
		f.ask(t, 2, f.up, "validate", "--all-contexts", "--fail-on", "info")
	})
	t.Run("usage", func(t *testing.T) {
		got := f.ask(t, 1, f.all, "usage", "v1beta1", "crontabs", "--all-contexts")
		fields(t, got.stdout, dead, "us crontabs.fleet.example.com v1beta1 in use manager e2e.test used it",
			"eu crontabs.fleet.example.com v1beta1 probably unused nothing was found, but metrics could not be looked at", "us crontabs.fleet.example.com v1beta1 manager e2e.test write 2 objects")
		contains(t, got.stdout, "kubectl crdver usage v1beta1 crontabs.fleet.example.com --kubeconfig "+f.all+" --context us --helm")
		f.ask(t, 2, f.up, "usage", "v1beta1", "crontabs", "--all-contexts")
		f.ask(t, 0, f.up, "usage", "v1beta1", "crontabs", "--contexts", "eu")
		// What none of them knows is a mistake, as it is where one is asked.
		for _, crds := range []string{"--all", "crontabs"} {
			got := f.ask(t, 1, f.up, "usage", "v1beta2", crds, "--all-contexts")
			contains(t, got.stderr, `none of the clusters has, and nothing there names, a version "v1beta2"; did you mean "v1beta1"?`)
			got.stdoutEmpty(t)
		}
	})
	t.Run("preflight", func(t *testing.T) {
		next := crontabs("fleet.example.com", "v1")
		next.APIVersion, next.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
		manifest, err := yaml.Marshal(next)
		if err != nil {
			t.Fatal(err)
		}
		path := writeFile(t, "next.yaml", manifest)
		got := f.ask(t, 1, f.all, "preflight", "-f", path, "--all-contexts")
		fields(t, got.stdout, dead, "us crontabs.fleet.example.com ok after 2 steps", "eu crontabs.fleet.example.com ok")
	})
	t.Run("json", func(t *testing.T) {
		got := f.ask(t, 1, f.all, "status", "--all-contexts", "-o", "json")
		var report v1alpha1.FleetReport
		if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
			t.Fatal(err)
		}
		if want := (v1alpha1.FleetSummary{Clusters: 3, Answered: 2, Failed: 1, Same: 1}); report.Summary != want {
			t.Errorf("summary %+v, want %+v", report.Summary, want)
		}
		us := report.Items[3]
		if us.Context != "us" || us.Status.Items[0].Next.Command != "kubectl crdver promote v1 "+f.crd+" --kubeconfig "+f.all+" --context us" {
			t.Errorf("%s", got.stdout)
		}
	})
	t.Run("missing", func(t *testing.T) {
		f.us.createCRD(t, crontabs("only.example.com", "v1"))
		got := f.ask(t, 0, f.up, "status", "crontabs.only.example.com", "--contexts", "eu,us")
		fields(t, got.stdout, "eu crontabs.only.example.com <none> <none> <none> <none> <none> <none> <none> there is no such CRD", "us crontabs.only.example.com v1")
		got = f.ask(t, 1, f.up, "status", "crontabs.nowhere.example.com", "--contexts", "eu,us")
		contains(t, got.stderr, `none of the clusters has a CustomResourceDefinition named "crontabs.nowhere.example.com"`)
	})
	t.Run("another way", func(t *testing.T) {
		// The same address through another proxy, or to another certificate, may be that of another cluster.
		proxy, err := testbed.StartProxy(t.Context(), f.eu.Config())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Stop)
		named := proxy.Config()
		named.ServerName = "localhost"
		contexts := map[string]*rest.Config{"eu": proxy.Config(), "named": named, "third": proxy.Config()}
		got := f.ask(t, 0, kubeconfigs(t, contexts), "status", f.crd, "--all-contexts")
		fields(t, got.stdout, "eu crontabs.fleet.example.com v1 ", "named crontabs.fleet.example.com v1 ", "third <none> <none> <none> <none> <none> <none> <none> <none> the same cluster as eu")
	})
	t.Run("interrupt", func(t *testing.T) {
		begin := time.Now()
		got := f.ask(t, 124, f.mute, "status", "--all-contexts", "--timeout", "1s")
		fields(t, got.stdout, "eu", "us", "mute <unknown>")
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// TestCanRemove asks whether a version may leave the manifest (must-show 5).
func TestCanRemove(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	got := f.ask(t, 1, f.all, "can-remove", "v1beta1", f.crd, "--all-contexts")
	fields(t, got.stdout,
		"eu crontabs.fleet.example.com v1beta1 no (verified) false probably unused clear <none>",
		"us crontabs.fleet.example.com v1beta1 yes true in use blocked <none>",
		"asia <unknown> <unknown> <unknown> <unknown> <unknown> unknown the connection to",
		"eu-again <none> <none> <none> <none> <none> <none> the same cluster as eu",
		"kubectl crdver promote v1 crontabs.fleet.example.com --kubeconfig "+f.all+" --context us",
		"It must not leave the manifest yet (3 clusters: 1 clear, 1 blocked, 1 unknown). A version may leave the manifest only when every cluster")
	got = f.ask(t, 2, f.up, "can-remove", "v1beta1", f.crd, "--all-contexts", "-o", "json")
	var report v1alpha1.CanRemoveReport
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
		t.Fatal(err)
	}
	if want := (v1alpha1.CanRemoveSummary{Clusters: 2, Clear: 1, Blocked: 1}); report.Summary != want || report.Verdict != v1alpha1.LeaveBlocked {
		t.Errorf("%s", got.stdout)
	}
	got = f.ask(t, 0, f.up, "can-remove", "v1beta1", f.crd, "--contexts", "eu")
	contains(t, got.stdout, "As far as these clusters are concerned, it may leave the manifest (1 cluster: 1 clear).")
	// A name that no cluster knows is a mistake, and not "not concerned".
	contains(t, f.ask(t, 1, f.up, "can-remove", "v1beta2", f.crd, "--contexts", "eu").stderr, `did you mean "v1beta1"?`)
	contains(t, f.ask(t, 1, f.up, "can-remove", "v1beta1", "crontabs.nowhere.example.com", "--all-contexts").stderr, "none of the clusters has a CustomResourceDefinition")

	// What the next manifest leaves out, on a cluster at a time, without contexts.
	next := crontabs("fleet.example.com", "v1")
	next.APIVersion, next.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	manifest, err := yaml.Marshal(next)
	if err != nil {
		t.Fatal(err)
	}
	path := writeFile(t, "next.yaml", manifest)
	fields(t, f.us.must(t, 2, "can-remove", "-f", path, "--skip-usage").stdout, "testbed crontabs.fleet.example.com v1beta1 yes true <none> blocked")
	f.eu.must(t, 0, "can-remove", "-f", path, "--skip-usage")

	// A claim is no proof: somebody trimmed the list by hand, and then nobody did.
	f.us.updateCRD(t, f.crd, func(c *apiextensionsv1.CustomResourceDefinition) {
		for i := range c.Spec.Versions {
			c.Spec.Versions[i].Storage = c.Spec.Versions[i].Name == "v1"
			c.Spec.Versions[i].Served = c.Spec.Versions[i].Storage
		}
	})
	f.us.patchStored(t, f.crd, "v1")
	got = f.us.must(t, 2, "can-remove", "v1beta1", f.crd, "--skip-usage", "--accept-claims")
	fields(t, got.stdout, "testbed crontabs.fleet.example.com v1beta1 unknown false", "status.storedVersions does not list v1beta1, but cannot be trusted")
	claimed := f.eu.createCRD(t, crontabs("claimed.example.com", "v1", "v1beta1"))
	f.eu.createObjects(t, "claimed.example.com", "v1", 1, "a")
	f.eu.updateCRD(t, claimed, func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[1].Served = false })
	got = f.eu.must(t, 2, "can-remove", "v1beta1", claimed, "--skip-usage")
	fields(t, got.stdout, "testbed crontabs.claimed.example.com v1beta1 no (claimed) false <none> blocked", "kubectl crdver migrate "+claimed+" --force")
	f.eu.must(t, 0, "can-remove", "v1beta1", claimed, "--skip-usage", "--accept-claims")
	f.eu.must(t, 0, "migrate", claimed, "--force", "--yes")
	f.eu.wantStored(t, "claimed.example.com", map[string]int{"v1": 1})
	got = f.eu.must(t, 0, "can-remove", "v1beta1", claimed, "--skip-usage")
	fields(t, got.stdout, "testbed crontabs.claimed.example.com v1beta1 no (verified) false <none> clear")
}

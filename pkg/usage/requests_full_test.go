//go:build controlplane

package usage_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// auditAll logs all stages, and the bodies for custom resources.
const auditAll = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: RequestResponse
  resources: [{group: ` + testbed.CronTabGroup + `}]
- level: Metadata
`

// as returns a client of CronTabs in the namespace default with a user agent.
func as(t *testing.T, config *rest.Config, agent, version string) dynamic.ResourceInterface {
	t.Helper()
	config = rest.CopyConfig(config)
	config.UserAgent = agent
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(testbed.CronTabResource(version)).Namespace("default")
}

func startRequests(t *testing.T, options testbed.FullOptions) *testbed.Full {
	t.Helper()
	bed, err := testbed.StartFull(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Stop)
	if _, err := testbed.CreateCRD(t.Context(), bed.Config(), testbed.CronTabs("v1beta1", "v1")); err != nil {
		t.Fatal(err)
	}
	return bed
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestAuditOfARealServer makes requests of many kinds, and finds each once in the
// audit log of the server.
func TestAuditOfARealServer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	begin := time.Now().Truncate(time.Second)
	bed := startRequests(t, testbed.FullOptions{AuditPolicy: auditAll})
	everything := rbacv1.PolicyRule{
		APIGroups: []string{testbed.CronTabGroup}, Resources: []string{"crontabs", "crontabs/status"},
		Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
	}
	alice, err := bed.User(ctx, "alice", everything)
	must(t, err)
	mallory, err := bed.User(ctx, "mallory")
	must(t, err)

	old := as(t, alice, "controller/2.0", "v1beta1")
	made, err := old.Create(ctx, testbed.NewCronTab("v1beta1", "default", "a", 0), metav1.CreateOptions{})
	must(t, err)
	for i := range 3 {
		made.SetLabels(map[string]string{"i": strconv.Itoa(i)})
		made, err = old.Update(ctx, made, metav1.UpdateOptions{})
		must(t, err)
	}
	_, err = old.Update(ctx, made, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	must(t, err)
	_, err = old.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	must(t, err)
	applied := testbed.NewCronTab("v1beta1", "default", "b", 0)
	_, err = old.Apply(ctx, "b", applied, metav1.ApplyOptions{FieldManager: "controller", Force: true})
	must(t, err)
	_, err = old.Patch(ctx, "b", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	must(t, err)
	if _, err := old.Get(ctx, "missing", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if _, err := as(t, mallory, "curl/8", "v1beta1").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatal(err)
	}
	impersonated := bed.Config()
	impersonated.Impersonate = rest.ImpersonationConfig{UserName: "alice"}
	_, err = as(t, impersonated, "debug", "v1beta1").List(ctx, metav1.ListOptions{})
	must(t, err)
	_, err = as(t, alice, "kubectl-crdver/v0.0.1 (linux/amd64)", "v1beta1").List(ctx, metav1.ListOptions{})
	must(t, err)
	_, err = as(t, alice, "controller/3.0", "v1").List(ctx, metav1.ListOptions{})
	must(t, err)
	// One watch that has ended and one that has not.
	second := int64(1)
	ended, err := as(t, alice, "informer/1", "v1beta1").Watch(ctx, metav1.ListOptions{TimeoutSeconds: &second})
	must(t, err)
	for range ended.ResultChan() {
	}
	open, err := as(t, alice, "informer/2", "v1beta1").Watch(ctx, metav1.ListOptions{})
	must(t, err)
	defer open.Stop()
	kubectl, err := bed.Kubectl()
	must(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, testbed.WriteKubeconfig(kubeconfig, alice))
	manifest := "apiVersion: " + testbed.CronTabGroup + "/v1beta1\nkind: CronTab\nmetadata: {name: k, namespace: default}\nspec: {replicas: 1}\n"
	for _, args := range []string{"--server-side", ""} {
		apply := exec.CommandContext(ctx, kubectl, append([]string{"--kubeconfig", kubeconfig, "apply", "--validate=false", "-f", "-"}, strings.Fields(args)...)...)
		apply.Stdin = strings.NewReader(manifest)
		if out, err := apply.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	time.Sleep(100 * time.Millisecond) // The last stages are logged after the answers.

	target := auditTarget("v1beta1", "v1")
	audit, err := usage.ReadAudit(ctx, usage.AuditOptions{Logs: []string{bed.AuditLog()}}, []usage.Target{target})
	must(t, err)
	evidence, unlooked, err := audit.Collect(ctx, target)
	must(t, err)
	var got []string
	for _, e := range evidence {
		if e.Who == "testbed-admin" {
			continue // The test bed waits for each version to be served.
		}
		if e.LastSeen == nil || e.LastSeen.Time.Before(begin) || e.LastSeen.After(time.Now()) {
			t.Errorf("%s was last seen %v", e.Who, e.LastSeen)
		}
		agent, _, _ := strings.Cut(e.Requests.UserAgent, " ")
		agent, _, _ = strings.Cut(agent, "/v")
		row := fmt.Sprintf("%s %s %s %s %s %d %s", e.Version, e.Who, agent, e.What, e.Subresource, e.Count, e.Proves)
		for _, verb := range e.Requests.Verbs {
			row += fmt.Sprintf(" %s=%d(%d)", verb.Verb, verb.Count, verb.Code)
			if verb.Missing {
				row += " missing"
			}
		}
		got = append(got, row+fmt.Sprintf(" dry %d open %d", e.Requests.DryRun, e.Requests.Open))
	}
	want := []string{
		"v1 alice controller/3.0 read  1 use list=1(200) dry 0 open 0",
		"v1beta1 alice controller/2.0 apply  1 use apply=1(201) dry 0 open 0",
		"v1beta1 alice controller/2.0 read  1 use get=1(404) missing dry 0 open 0",
		"v1beta1 alice controller/2.0 write  6 use update=4(200) create=1(201) patch=1(200) dry 1 open 0",
		"v1beta1 alice controller/2.0 write status 1 use update=1(200) dry 0 open 0",
		"v1beta1 alice debug read  1 use list=1(200) dry 0 open 0",
		"v1beta1 alice informer/1 read  1 use watch=1(200) dry 0 open 0",
		"v1beta1 alice informer/2 read  1 use watch=1(200) dry 0 open 1",
		"v1beta1 alice kubectl apply  1 use apply=1(201) dry 0 open 0",
		"v1beta1 alice kubectl read  1 use get=1(200) dry 0 open 0",
		"v1beta1 alice kubectl write  1 use patch=1(200) dry 0 open 0",
		"v1beta1 alice kubectl-crdver read  1 capability list=1(200) dry 0 open 0",
		"v1beta1 mallory curl/8 read  1 reference list=1(403) dry 0 open 0",
	}
	if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(unlooked) != 0 {
		t.Errorf("%+v", unlooked)
	}
	info, err := os.Stat(bed.AuditLog())
	must(t, err)
	if audit.Stats.Corrupt != 0 || audit.Stats.Lines < 100 || audit.Stats.Bytes > info.Size() {
		t.Errorf("%+v", audit.Stats)
	}
}

// balance listens at an address behind which connections go to the hosts in turn.
func balance(t *testing.T, hosts ...string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for i := 0; ; i++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			host, _ := url.Parse(hosts[i%len(hosts)])
			server, err := net.Dial("tcp", host.Host)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
			go func() { _, _ = io.Copy(client, server); _ = client.Close() }()
		}
	}()
	return "https://" + listener.Addr().String()
}

func readMetrics(ctx context.Context, t *testing.T, config *rest.Config, options usage.MetricsOptions) ([]string, []string) {
	t.Helper()
	options.Window = time.Nanosecond // So that the servers were started before it.
	target := auditTarget("v1beta1", "v1")
	metrics, err := usage.ReadMetrics(ctx, client(t, config), options, []usage.Target{target})
	must(t, err)
	evidence, unlooked, err := metrics.Collect(t.Context(), target)
	must(t, err)
	var rows, why []string
	for _, e := range evidence {
		row := fmt.Sprintf("%s %s %s %d %s", e.Version, e.What, e.Subresource, e.Count, e.Proves)
		for _, verb := range e.Requests.Verbs {
			row += fmt.Sprintf(" %s=%d(%d)", verb.Verb, verb.Count, verb.Code)
		}
		rows = append(rows, row+" "+e.Note)
	}
	for _, u := range unlooked {
		why = append(why, fmt.Sprint(u.Optional, " ", u.Why))
	}
	return rows, why
}

func hasPrefixes(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		ok = ok && strings.HasPrefix(got[i], want[i])
	}
	if !ok {
		t.Errorf("%s: got\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestMetricsOfRealServers reads the metrics of two servers: through a load
// balancer, by their addresses, without rights, and while one is restarted.
func TestMetricsOfRealServers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	bed := startRequests(t, testbed.FullOptions{})
	other, err := bed.StartAnotherAPIServer(ctx, "--bind-address=0.0.0.0")
	must(t, err)
	_, err = testbed.WaitForCRD(ctx, other.Config(), testbed.CronTabCRD)
	must(t, err)
	list := func(config *rest.Config, version string, n int) {
		for range n {
			if _, err := as(t, config, "test", version).List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Error(err)
			}
		}
	}
	list(bed.Config(), "v1beta1", 3)
	list(other.Config(), "v1beta1", 4)
	list(other.Config(), "v1", 1)
	// And the test bed waited for each version to be served, on each server.
	optional := "true only what was counted"

	balanced := bed.Config()
	balanced.Host = balance(t, bed.Config().Host, other.Config().Host)
	rows, why := readMetrics(ctx, t, balanced, usage.MetricsOptions{})
	hasPrefixes(t, "balanced", rows, "v1beta1 read  9 past use list=9(200) since the API server started, 20", "v1 read  3 past use list=3(200)")
	hasPrefixes(t, "balanced", why, optional)

	nobody, err := bed.User(ctx, "nobody")
	must(t, err)
	rows, why = readMetrics(ctx, t, nobody, usage.MetricsOptions{})
	hasPrefixes(t, "without rights", rows)
	hasPrefixes(t, "without rights", why, "false you may not read them: reading /metrics takes a ClusterRole with the rule {nonResourceURLs: [/metrics], verbs: [get]}")

	t.Run("addresses", func(t *testing.T) {
		endpoints(t, bed, bed.Config().Host, other.Config().Host)
		rows, why := readMetrics(ctx, t, bed.Config(), usage.MetricsOptions{})
		hasPrefixes(t, "by address", rows, "v1beta1 read  9 past use", "v1 read  3 past use")
		hasPrefixes(t, "by address", why, optional)
		endpoints(t, bed, bed.Config().Host, "https://127.0.0.1:1")
		_, why = readMetrics(ctx, t, bed.Config(), usage.MetricsOptions{})
		hasPrefixes(t, "one out of reach", why, "false 1 of 2 API servers could be reached", optional)
		endpoints(t, bed)
	})

	// A watch: requests to one server, a watch that stays open, a restart of the
	// other one, requests to it. The interrupt ends it.
	watchCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var seen atomic.Int64
	reading := make(chan struct{}, 1)
	options := usage.MetricsOptions{Watch: 5 * time.Minute, Interval: 100 * time.Millisecond, Progress: func(p usage.WatchProgress) {
		seen.Store(p.Requests)
		select {
		case reading <- struct{}{}:
		default:
		}
	}}
	until := func(n int64) {
		deadline := time.Now().Add(30 * time.Second)
		for seen.Load() < n {
			if time.Now().After(deadline) {
				t.Errorf("%d requests after 30 s, want %d", seen.Load(), n)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		<-reading
		list(other.Config(), "v1beta1", 2)
		open, err := as(t, other.Config(), "test", "v1beta1").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		defer open.Stop()
		until(2)
		if err := bed.RestartAPIServer(t.Context()); err != nil {
			t.Error(err)
		}
		list(bed.Config(), "v1beta1", 5)
		until(7)
		cancel()
		time.Sleep(time.Second) // The watch is open while the metrics are read for the last time.
	}()
	rows, why = readMetrics(watchCtx, t, balanced, options)
	<-done
	// A server that has just started answers 429 while its storage initializes, and
	// the client asks again: it counts both.
	if len(rows) != 3 || !regexp.MustCompile(`^v1beta1 read  \d+ use list=7\(200\) (list=\d+\(429\) )?in `).MatchString(rows[0]) {
		t.Errorf("watched: got\n%s", strings.Join(rows, "\n"))
	} else {
		hasPrefixes(t, "watched", rows[1:], "v1beta1 read  9 past use list=9(200) since", "v1 read  3 past use")
	}
	hasPrefixes(t, "watched", why, "false the API server that started at ")
	if !strings.Contains(strings.Join(rows, "\n"), "1 watches open now") {
		t.Errorf("no open watch in %q", rows)
	}
}

// endpoints publishes servers as the endpoints of the Service kubernetes, at an
// address of this machine that is not the loopback device's.
func endpoints(t *testing.T, bed *testbed.Full, hosts ...string) {
	t.Helper()
	address := ""
	addresses, err := net.InterfaceAddrs()
	must(t, err)
	for _, one := range addresses {
		if ip, ok := one.(*net.IPNet); ok && !ip.IP.IsLoopback() && ip.IP.To4() != nil {
			address = ip.IP.String()
		}
	}
	if address == "" {
		t.Skip("this machine has no address but the loopback device's")
	}
	kube, err := kubernetes.NewForConfig(bed.Config())
	must(t, err)
	slices := kube.DiscoveryV1().EndpointSlices("default")
	must(t, slices.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	for i, host := range hosts {
		parsed, err := url.Parse(host)
		must(t, err)
		number, err := strconv.ParseInt(parsed.Port(), 10, 32)
		must(t, err)
		port, name := int32(number), "https"
		_, err = slices.Create(t.Context(), &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: fmt.Sprintf("server-%d", i), Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
			Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
		}, metav1.CreateOptions{})
		must(t, err)
	}
}

//go:build controlplane

package fulltest_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func usageScenarios() []scenario {
	return []scenario{
		{name: "usage by real writers", run: testUsageWriters},
		{name: "usage around the objects", run: testUsageAround},
		{name: "usage without rights", run: testUsageWithoutRights},
	}
}

// usage runs "usage ... -o json".
func (s *subject) usage(t *testing.T, kubeconfig string, code int, args ...string) []v1alpha1.VersionUsage {
	t.Helper()
	r := s.runAs(t, kubeconfig, append([]string{"usage", "-o", "json"}, args...)...)
	r.want(t, code)
	return decode[v1alpha1.UsageReport](t, r).Items
}

// usageRows are the rows of a source as text, without times and notes.
func usageRows(item v1alpha1.VersionUsage, source v1alpha1.UsageSource) []string {
	var rows []string
	for _, e := range item.Evidence {
		if e.Source != source {
			continue
		}
		row := fmt.Sprintf("%s %s: %s %s %d %s, %s", e.WhoKind, e.Who, e.What, e.Subresource, e.Count, e.CountOf, e.Proves)
		if e.Stale {
			row += ", stale"
		}
		rows = append(rows, strings.Join(strings.Fields(row), " "))
	}
	slices.Sort(rows)
	return rows
}

func wantRows(t *testing.T, item v1alpha1.VersionUsage, source v1alpha1.UsageSource, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := usageRows(item, source); !slices.Equal(got, want) {
		t.Errorf("%s at %s: %s says\n%s\nwant\n%s", item.CRD, item.Version, source, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// writer is a client-go client with a user agent of its own, which is the name of
// its manager up to the slash.
func (s *subject) writer(t *testing.T, config *rest.Config, agent, version string) dynamic.ResourceInterface {
	t.Helper()
	config = rest.CopyConfig(config)
	config.UserAgent = agent
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(s.at(version)).Namespace("default")
}

// controller creates objects, and writes their status, as an operator would.
func (s *subject) controller(t *testing.T, agent, version string, names ...string) {
	t.Helper()
	objects := s.writer(t, s.bed.Config(), agent, version)
	for i, name := range names {
		created, err := objects.Create(t.Context(), s.object(version, "default", name, i), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedField(created.Object, int64(i+1), "status", "replicas"); err != nil {
			t.Fatal(err)
		}
		if _, err := objects.UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// kubectlApply applies an object client-side with the real kubectl.
func (s *subject) kubectlApply(t *testing.T, version, name, spec string) {
	t.Helper()
	kubectl, err := s.bed.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), kubectl, "--kubeconfig", s.kubeconfig, "--cache-dir", t.TempDir(), "apply", "-f", "-")
	command.Stdin = strings.NewReader("apiVersion: " + s.group + "/" + version + "\nkind: CronTab\nmetadata: {name: " + name + ", namespace: default}\nspec: " + spec + "\n")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply at %s: %v\n%s", version, err, out)
	}
}

// token lets a service account write the objects, and returns a token of it.
func (s *subject) token(t *testing.T, account string) string {
	t.Helper()
	client := kubeClient(t, s.bed)
	accounts := client.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Name: account, Namespace: "default"}
	if _, err := client.RbacV1().Roles("default").Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule(s.group, testbed.CronTabPlural, "get", "update")}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := client.RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: account}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	request, err := accounts.CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// put sends what curl would: a PUT with a bearer token.
func (s *subject) put(t *testing.T, token, version, name string, change func(*unstructured.Unstructured)) {
	t.Helper()
	transport, err := rest.TransportFor(&rest.Config{Host: s.bed.Config().Host, TLSClientConfig: rest.TLSClientConfig{CAData: s.bed.Config().CAData, CAFile: s.bed.Config().CAFile}})
	if err != nil {
		t.Fatal(err)
	}
	object, err := s.objects(t, version, "default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	change(object)
	body, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the service account may update", 2*time.Minute, func() bool {
		url := s.bed.Config().Host + "/apis/" + s.group + "/" + version + "/namespaces/default/crontabs/" + name
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("User-Agent", "curl/8.5.0")
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		answer, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK && response.StatusCode != http.StatusForbidden {
			t.Fatalf("PUT: %v %d %s", err, response.StatusCode, answer)
		}
		return response.StatusCode == http.StatusOK
	})
}

// testUsageWriters has writers of many kinds at both versions.
func testUsageWriters(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "usage.example.com", 0, "v1beta1", "v1")
	begin := time.Now().Truncate(time.Second)
	s.kubectlApply(t, "v1beta1", "by-kubectl", "{cronSpec: '1 * * * *'}")
	s.kubectlApply(t, "v1", "by-kubectl-v1", "{cronSpec: '1 * * * *'}")
	s.apply(t, "team-ssa", "v1beta1", "image: example.com/a")
	s.apply(t, "team-new", "v1", "replicas: 7")
	s.controller(t, "cron-operator/v1.2 (linux/amd64)", "v1beta1", "cron-a", "cron-b", "cron-c")
	s.controller(t, "moved-operator/v1", "v1beta1", "moved-a", "moved-b")
	s.put(t, s.token(t, "curl-user"), "v1beta1", "cron-c", func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"by": "curl"}) })
	alice, err := bed.User(t.Context(), "alice", rule(s.group, testbed.CronTabPlural, "patch"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.writer(t, alice, "alice-script/2", "v1").Patch(t.Context(), "cron-a", types.MergePatchType, []byte(`{"spec":{"image":"example.com/alice"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The operator is upgraded. Times are whole seconds; it takes more than one to roll out.
	time.Sleep(1100 * time.Millisecond)
	moved := s.writer(t, bed.Config(), "moved-operator/v2", "v1")
	for _, subresource := range [][]string{nil, {"status"}} {
		if _, err := moved.Patch(t.Context(), "moved-a", types.MergePatchType, []byte(`{"spec":{"replicas":9},"status":{"replicas":9}}`), metav1.PatchOptions{}, subresource...); err != nil {
			t.Fatal(err)
		}
	}
	items := s.usage(t, s.kubeconfig, 2, s.name)
	if len(items) != 2 || items[1].Verdict != v1alpha1.UsageInUse || items[1].Objects == nil || *items[1].Objects != 8 {
		t.Fatalf("%+v", items)
	}
	wantRows(t, items[1], v1alpha1.UsageManagedFields,
		"manager kubectl-client-side-apply: write 1 objects, use",
		"manager team-ssa: apply 1 objects, use",
		"manager cron-operator: write 3 objects, use",
		"manager cron-operator: write status 3 objects, use",
		"manager curl: write 1 objects, use",
		"manager moved-operator: write 2 objects, past use, stale",
		"manager moved-operator: write status 2 objects, past use, stale",
	)
	wantRows(t, items[1], v1alpha1.UsageLastApplied, "client client-side apply: apply 1 objects, past use")
	wantRows(t, items[0], v1alpha1.UsageManagedFields,
		"manager kubectl-client-side-apply: write 1 objects, use",
		"manager team-new: apply 1 objects, use",
		"manager alice-script: write 1 objects, use",
		"manager moved-operator: write 1 objects, use",
		"manager moved-operator: write status 1 objects, use",
	)
	for _, item := range items {
		rows := usageRows(item, v1alpha1.UsageRBAC)
		for _, want := range []string{"user alice: could 1 bindings, capability", "serviceAccount default/curl-user: could 1 bindings, capability"} {
			if !slices.Contains(rows, want) {
				t.Errorf("%s: %q is not in %q", item.Version, want, rows)
			}
		}
		for _, e := range item.Evidence {
			if e.Source == v1alpha1.UsageManagedFields && (e.LastSeen == nil || e.LastSeen.Time.Before(begin) || e.LastSeen.After(time.Now())) {
				t.Errorf("%s: last seen %v, want after %v", e.Who, e.LastSeen, begin)
			}
		}
	}
	r := s.run(t, "usage", "v1beta1", s.name)
	r.want(t, 2, "manager cron-operator", "past use (stale)", "v1beta1: in use (manager")
	// Who moved on is not accused: once only it is left, the version is not in use.
	for _, name := range []string{"by-kubectl", "by-kubectl-v1", "applied", "cron-a", "cron-b", "cron-c"} {
		if err := s.objects(t, "v1", "default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	item := s.usage(t, s.kubeconfig, 0, "v1beta1", s.name)[0]
	wantRows(t, item, v1alpha1.UsageManagedFields,
		"manager moved-operator: write 2 objects, past use, stale", "manager moved-operator: write status 2 objects, past use, stale")
	if item.Verdict != v1alpha1.UsageProbablyUnused {
		t.Errorf("%s (%s)", item.Verdict, item.Why)
	}
}

// testUsageWithoutRights has users who may read a part of what tells.
func testUsageWithoutRights(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "poor-usage.example.com", 3, "v1beta1", "v1")
	list := rule(apiextensions, crds, "get", "list")
	poor, err := bed.User(t.Context(), "poor", list, rule(s.group, testbed.CronTabPlural, "list"))
	if err != nil {
		t.Fatal(err)
	}
	item := s.usage(t, kubeconfigOf(t, poor), 2, "v1beta1", s.name, "--helm")[0]
	wantRows(t, item, v1alpha1.UsageManagedFields, "manager fulltest.test: write 3 objects, use")
	missing := map[v1alpha1.UsageSource]string{}
	for _, one := range item.NotLooked {
		missing[one.Source] += one.Why + ";" + one.Command + ";"
	}
	for source, why := range map[v1alpha1.UsageSource]string{
		v1alpha1.UsageOwnerReference: "could not be listed: ", v1alpha1.UsageHPA: "you may not list horizontalpodautoscalers.autoscaling;",
		v1alpha1.UsageWebhook: "you may not list mutatingwebhookconfigurations.admissionregistration.k8s.io;",
		v1alpha1.UsagePolicy:  "you may not list validatingadmissionpolicies.admissionregistration.k8s.io;",
		v1alpha1.UsageRBAC:    "you may not list rolebindings.rbac.authorization.k8s.io;", v1alpha1.UsageHelm: "you may not list secrets;",
		v1alpha1.UsageMetrics: "metrics",
	} {
		if !strings.Contains(missing[source], why) || !strings.Contains(missing[source], "kubectl ") {
			t.Errorf("%s: %q, want %q", source, missing[source], why)
		}
	}
	// One who may not even list the objects gets no verdict that sounds safe.
	poorest, err := bed.User(t.Context(), "poorest", list)
	if err != nil {
		t.Fatal(err)
	}
	item = s.usage(t, kubeconfigOf(t, poorest), 0, "v1beta1", s.name)[0]
	if item.Verdict != v1alpha1.UsageProbablyUnused || item.Objects != nil ||
		!slices.ContainsFunc(item.NotLooked, func(u v1alpha1.Unlooked) bool {
			return u.Source == v1alpha1.UsageManagedFields && u.Why == "you may not list "+s.name
		}) {
		t.Errorf("%+v", item)
	}
	// And one who may not list CRDs gets an error.
	nobody, err := bed.User(t.Context(), "nobody")
	if err != nil {
		t.Fatal(err)
	}
	s.runAs(t, kubeconfigOf(t, nobody), "usage", "v1beta1", s.name).want(t, 1, "forbidden")
}

//go:build controlplane

package fulltest_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestBrownout has a control plane of its own: with an audit log, with the controllers
// of workloads, and with an API server that is stopped in the end.
func TestBrownout(t *testing.T) {
	t.Parallel()
	bed := startFull(t, testbed.FullOptions{
		AuditPolicy: testbed.AuditMetadata, ControllerManager: true, Controllers: []string{"deployment-controller", "replicaset-controller"},
	})
	t.Run("together", func(t *testing.T) {
		for name, run := range map[string]func(*testing.T, *testbed.Full){"clients": testBrownoutClients, "workloads": testBrownoutWorkloads} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run(t, bed)
			})
		}
	})
	t.Run("server down", func(t *testing.T) { testBrownoutServerDown(t, bed) })
}

// brownoutSubject is a CRD at whose v1beta1 no object is stored.
func brownoutSubject(t *testing.T, bed *testbed.Full, group string) *subject {
	t.Helper()
	s := newSubject(t, bed, group, 2, "v1beta1", "v1")
	s.run(t, "promote", "v1", s.name, "--yes").want(t, 0)
	return s
}

// brownout begins a brownout and waits until the version is not served.
func (s *subject) brownout(t *testing.T, errOut *watcher, args ...string) <-chan result {
	t.Helper()
	done := make(chan result, 1)
	go func() {
		done <- s.runTo(t, errOut, s.kubeconfig, append([]string{"brownout", "v1beta1", s.name, "--allow-in-use", "--yes"}, args...)...)
	}()
	eventually(t, "v1beta1 is not served", 2*time.Minute, func() bool {
		return apierrors.IsNotFound(s.lists(t, "v1beta1"))
	})
	return done
}

// lists lists the objects at a version.
func (s *subject) lists(t *testing.T, version string) error {
	t.Helper()
	_, err := s.objects(t, version, "default").List(t.Context(), metav1.ListOptions{})
	return err
}

// get sends what curl would with a bearer token, and returns the status of the answer.
func (s *subject) get(t *testing.T, token, version, name string) int {
	t.Helper()
	config := s.bed.Config()
	transport, err := rest.TransportFor(&rest.Config{Host: config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData, CAFile: config.CAFile}})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/apis/"+s.group+"/"+version+"/namespaces/default/crontabs/"+name, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("User-Agent", "curl/8.5.0")
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close() // Only the status matters.
	return response.StatusCode
}

// testBrownoutClients has clients with users and user agents of their own fail, and
// finds them in the audit log of the server: only those that failed, and only while
// the version was not served.
func testBrownoutClients(t *testing.T, bed *testbed.Full) {
	s := brownoutSubject(t, bed, "brown-clients.example.com")
	alice, err := bed.User(t.Context(), "alice", rule(s.group, testbed.CronTabPlural, "get", "patch"))
	if err != nil {
		t.Fatal(err)
	}
	token := s.token(t, "curl-user")
	old, moved := s.writer(t, alice, "alice-operator/1.4", "v1beta1"), s.writer(t, alice, "alice-operator/2.0", "v1")
	get := func(objects dynamic.ResourceInterface, name string) error {
		_, err := objects.Get(t.Context(), name, metav1.GetOptions{})
		return err
	}
	// Before, it works; and a request for what is not there is answered 404 at any time.
	if err := get(old, "object-000000"); err != nil {
		t.Fatal(err)
	}
	if err := get(old, "missing"); !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	eventually(t, "the service account may read", 2*time.Minute, func() bool { return s.get(t, token, "v1", "object-000000") == http.StatusOK })

	const rounds = 2
	done := s.brownout(t, &watcher{}, "--for", "8s", "--repeat", fmt.Sprint(rounds), "--every", "12s", "--audit-log", bed.AuditLog(), "-o", "json")
	for range rounds {
		eventually(t, "v1beta1 is not served", time.Minute, func() bool { return apierrors.IsNotFound(s.lists(t, "v1beta1")) })
		for range 3 {
			if err := get(old, "object-000000"); !apierrors.IsNotFound(err) {
				t.Errorf("get at v1beta1: %v", err)
			}
		}
		if _, err := old.Patch(t.Context(), "object-000000", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("patch at v1beta1: %v", err)
		}
		if code := s.get(t, token, "v1beta1", "object-000000"); code != http.StatusNotFound {
			t.Errorf("curl at v1beta1: %d", code)
		}
		if err := get(moved, "object-000000"); err != nil {
			t.Errorf("get at v1: %v", err)
		}
		eventually(t, "v1beta1 is served", time.Minute, func() bool { return s.lists(t, "v1beta1") == nil })
	}
	r := <-done
	r.want(t, 2)
	report := decode[v1alpha1.Report](t, r).Brownout
	var rows []string
	for _, client := range report.Clients {
		if client.Requests.UserAgent == "alice-operator/1.4" || client.Requests.UserAgent == "curl/8.5.0" || client.Requests.UserAgent == "alice-operator/2.0" {
			rows = append(rows, fmt.Sprintf("%s %s %s %s %d %s %v", client.WhoKind, client.Who, client.Requests.UserAgent, client.What, client.Count, client.CountOf, client.Requests.Verbs))
		}
	}
	slices.Sort(rows)
	want := []string{
		"user alice alice-operator/1.4 read 6 requests [{get 404 false 6}]",
		"user alice alice-operator/1.4 write 2 requests [{patch 404 false 2}]",
		"user system:serviceaccount:default:curl-user curl/8.5.0 read 2 requests [{get 404 false 2}]",
	}
	if !slices.Equal(rows, want) || !slices.Contains(report.Watched, "audit logs") || len(report.Rounds) != rounds {
		t.Errorf("%s\nwant\n%s\n%+v", strings.Join(rows, "\n"), strings.Join(want, "\n"), report)
	}
	// For people.
	done = s.brownout(t, &watcher{}, "--for", "5s", "--audit-log", bed.AuditLog())
	if code := s.get(t, token, "v1beta1", "object-000000"); code != http.StatusNotFound {
		t.Errorf("curl at v1beta1: %d", code)
	}
	r = <-done
	r.want(t, 2, "failed: user system:serviceaccount:default:curl-user, curl/8.5.0: 1 request, read", "v1beta1 is served again")
	r.lacks(t, "alice-operator")
}

// runs makes the pods of a Deployment what a kubelet would.
func runs(ctx context.Context, t *testing.T, client kubernetes.Interface, pod *corev1.Pod, ready bool, restarts int32) {
	t.Helper()
	state := corev1.ConditionFalse
	if ready {
		state = corev1.ConditionTrue
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: state, LastTransitionTime: metav1.Now()}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Ready: ready, RestartCount: restarts, Image: "a", ImageID: "a"}}
	updated, err := client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	*pod = *updated
}

// testBrownoutWorkloads has workloads that are not ready any more while the version
// is not served, of which the real controllers tell where they can without nodes.
func testBrownoutWorkloads(t *testing.T, bed *testbed.Full) {
	ctx := t.Context()
	s := brownoutSubject(t, bed, "brown-workloads.example.com")
	client := kubeClient(t, bed)
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "shop"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/shop"}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: template.Labels}
	meta := metav1.ObjectMeta{Name: "shop", Namespace: "default"}
	apps := client.AppsV1()
	if _, err := apps.Deployments("default").Create(ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(2)), Selector: selector, Template: template,
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	set, err := apps.StatefulSets("default").Create(ctx, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(3)), Selector: selector, Template: template, ServiceName: "shop",
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	daemons, err := apps.DaemonSets("default").Create(ctx, &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := &corev1.PodList{}
	eventually(t, "the Deployment has pods", time.Minute, func() bool {
		if pods, err = client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=shop"}); err != nil {
			t.Fatal(err)
		}
		return len(pods.Items) == 2
	})
	readyReplicas := func(want int32) {
		t.Helper()
		eventually(t, fmt.Sprintf("the Deployment has %d replicas ready", want), time.Minute, func() bool {
			found, err := apps.Deployments("default").Get(ctx, "shop", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return found.Status.ReadyReplicas == want
		})
	}
	status := func(ready int32) {
		t.Helper()
		set.Status = appsv1.StatefulSetStatus{Replicas: 3, ReadyReplicas: ready}
		daemons.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, CurrentNumberScheduled: 2, NumberReady: min(ready, 2)}
		if set, err = apps.StatefulSets("default").UpdateStatus(ctx, set, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if daemons, err = apps.DaemonSets("default").UpdateStatus(ctx, daemons, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	runs(ctx, t, client, &pods.Items[0], true, 1)
	runs(ctx, t, client, &pods.Items[1], true, 0)
	status(3)
	readyReplicas(2)

	done := s.brownout(t, &watcher{}, "--for", "15s", "-o", "json")
	runs(ctx, t, client, &pods.Items[0], false, 3)
	status(1)
	for _, event := range []struct{ name, kind, message string }{
		{"of-the-group", corev1.EventTypeWarning, "failed to list " + s.group + "/v1beta1, Resource=crontabs"},
		{"of-the-kind", corev1.EventTypeWarning, `no matches for kind "CronTab" in version "v1beta1"`},
		{"normal", corev1.EventTypeNormal, s.group + " is fine"},
		{"of-something-else", corev1.EventTypeWarning, "pull failed"},
	} {
		_, err := client.CoreV1().Events("default").Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: event.name}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: event.name},
			Type: event.kind, Reason: "Sync", Message: event.message, LastTimestamp: metav1.Now(),
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	readyReplicas(1)
	r := <-done
	r.want(t, 2)
	report := decode[v1alpha1.Report](t, r).Brownout
	var rows []string
	for _, effect := range report.Affected {
		rows = append(rows, effect.Resource+" "+effect.Name+": "+effect.What)
	}
	slices.Sort(rows)
	want := []string{
		"daemonsets.apps default/shop: 2 of 2 ready before, 1 at the least since",
		"deployments.apps default/shop: 2 of 2 ready before, 1 at the least since",
		"events default/of-the-group: Pod Sync: failed to list " + s.group + "/v1beta1, Resource=crontabs",
		`events default/of-the-kind: Pod Sync: no matches for kind "CronTab" in version "v1beta1"`,
		"pods default/" + pods.Items[0].Name + ": containers restarted 2 times",
		"statefulsets.apps default/shop: 3 of 3 ready before, 1 at the least since",
	}
	if !slices.Equal(rows, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"))
	}
	for _, what := range []string{"deployments.apps", "statefulsets.apps", "daemonsets.apps", "pods", "events", "ownerReferences"} {
		if !slices.Contains(report.Watched, what) {
			t.Errorf("%s was not watched: %+v", what, report)
		}
	}
}

// testBrownoutServerDown stops the API server while the version is not served, until
// after the time is up.
func testBrownoutServerDown(t *testing.T, bed *testbed.Full) {
	s := brownoutSubject(t, bed, "brown-down.example.com")
	errOut := &watcher{texts: []string{"v1beta1 is STILL NOT SERVED: ", "Whoever gives up has to run: kubectl crdver restore v1beta1 " + s.name}, seen: make(chan struct{})}
	done := s.brownout(t, errOut, "--for", "5s", "--progress", "json")
	eventually(t, "it was seen that v1beta1 is not served", 2*time.Minute, func() bool { return strings.Contains(errOut.String(), "v1beta1 is not served, ") })
	bed.Shutdown(t.Context())
	select {
	case <-errOut.seen:
	case r := <-done:
		t.Fatalf("%+v", r)
	}
	if err := bed.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := <-done
	r.want(t, 0, "v1beta1 is served again")
	if err := s.lists(t, "v1beta1"); err != nil {
		t.Error(err)
	}
	s.run(t, "status", s.name).lacks(t, "brownout")
}

//go:build controlplane

package fulltest_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func referenceScenarios() []scenario {
	return []scenario{
		{name: "owner references", run: testOwnerReferences},
		{name: "deprecation warning", run: testDeprecation},
		{name: "server-side apply", run: testApply},
	}
}

// child creates a ConfigMap that an object of the subject owns.
func (s *subject) child(t *testing.T, name, apiVersion, kind string) {
	t.Helper()
	owner, err := s.objects(t, "v1", "default").Get(t.Context(), "object-000000", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = kubeClient(t, s.bed).CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: apiVersion, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(),
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// testOwnerReferences has a child whose ownerReference names v1beta1, and others
// that only look like it.
func testOwnerReferences(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "owners.example.com", 3, "v1beta1", "v1")
	s.run(t, "promote", "v1", s.name, "--yes").want(t, 0)
	twin := newSubject(t, bed, "twin-owners.example.com", 1, "v1beta1", "v1")
	s.child(t, "owned-v1beta1", s.group+"/v1beta1", testbed.CronTabKind)
	s.child(t, "owned-v1", s.group+"/v1", testbed.CronTabKind)
	twin.child(t, "owned-twin", twin.group+"/v1beta1", testbed.CronTabKind)

	before := s.snapshot(t)
	r := s.run(t, "retire", "v1beta1", s.name, "--yes")
	r.want(t, 3, "1 object has an ownerReference to owners.example.com/v1beta1 CronTab", "1 configmaps: default/owned-v1beta1",
		"--allow-owner-references")
	r.lacks(t, "owned-v1,", "owned-twin")
	s.run(t, "retire", "v1beta1", s.name, "--yes", "--until", "unserve").want(t, 3, "default/owned-v1beta1")
	s.unwritten(t, before)
	// What comes before is not blocked.
	s.run(t, "retire", "v1beta1", s.name, "--yes", "--until", "deprecate").want(t, 0)

	r = s.run(t, "retire", "v1beta1", s.name, "--dry-run=server", "--allow-owner-references")
	r.want(t, 0, "stop serving v1beta1")
	// Once its controller has rewritten the reference, nothing is in the way.
	client := kubeClient(t, bed).CoreV1().ConfigMaps("default")
	child, err := client.Get(t.Context(), "owned-v1beta1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	child.OwnerReferences[0].APIVersion = s.group + "/v1"
	if _, err := client.Update(t.Context(), child, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.run(t, "retire", "v1beta1", s.name, "--yes").want(t, 0, "retired v1beta1")
	s.stored(t, map[string]int{"v1": 3})
	for _, name := range []string{"owned-v1beta1", "owned-v1", "owned-twin"} {
		if _, err := client.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("child %s: %v", name, err)
		}
	}
}

// testDeprecation makes clients get the warning, and the server count them.
func testDeprecation(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "deprecated.example.com", 1, "v1beta1", "v1")
	text := s.group + "/v1beta1 CronTab is deprecated; use " + s.group + "/v1 CronTab"
	s.run(t, "deprecate", "v1beta1", s.name, "--yes").want(t, 0, "clients get: Warning: 299 - \""+text+"\"")

	var warned bytes.Buffer
	config := bed.Config()
	config.WarningHandler = rest.NewWarningWriter(&warned, rest.WarningWriterOptions{})
	client, err := rest.UnversionedRESTClientFor(dynamic.ConfigFor(config))
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) string {
		t.Helper()
		body, err := client.Get().AbsPath(path).Do(t.Context()).Raw()
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	get("/apis/" + s.group + "/v1beta1/crontabs")
	if got := strings.TrimSpace(warned.String()); got != "Warning: "+text {
		t.Errorf("a client at v1beta1 gets %q", got)
	}
	warned.Reset()
	get("/apis/" + s.group + "/v1/crontabs")
	if warned.Len() > 0 {
		t.Errorf("a client at v1 gets %q", warned.String())
	}
	metric := ""
	for line := range strings.Lines(get("/metrics")) {
		if strings.HasPrefix(line, "apiserver_requested_deprecated_apis{") && strings.Contains(line, `group="`+s.group+`"`) {
			metric += line
		}
	}
	if !strings.Contains(metric, `version="v1beta1"`) || !strings.HasSuffix(strings.TrimSpace(metric), " 1") {
		t.Errorf("metric %q", metric)
	}
	s.run(t, "deprecate", "v1beta1", s.name, "--undo", "--yes").want(t, 0, "clients get no warning")
	get("/apis/" + s.group + "/v1beta1/crontabs")
	if warned.Len() > 0 {
		t.Errorf("after --undo, a client at v1beta1 gets %q", warned.String())
	}
}

// testApply has two managers that apply with kubectl at two versions; both can
// go on after the retirement, and give up what they no longer apply.
func testApply(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "applied.example.com", 2, "v1beta1", "v1")
	s.apply(t, "a", "v1beta1", "cronSpec: '1 * * * *'", "image: example.com/a")
	s.apply(t, "b", "v1", "replicas: 7")
	s.run(t, "promote", "v1", s.name, "--yes").want(t, 0)
	s.apply(t, "a", "v1beta1", "cronSpec: '2 * * * *'", "image: example.com/a")
	s.run(t, "retire", "v1beta1", s.name, "--yes").want(t, 0)
	s.stored(t, map[string]int{"v1": 3})

	spec := func() map[string]any {
		t.Helper()
		object, err := s.objects(t, "v1", "default").Get(t.Context(), "applied", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range object.GetManagedFields() {
			if entry.APIVersion != s.group+"/v1" {
				t.Errorf("managedFields entry of %s at %s", entry.Manager, entry.APIVersion)
			}
		}
		spec, _ := object.Object["spec"].(map[string]any)
		return spec
	}
	if got := spec(); len(got) != 3 || got["cronSpec"] != "2 * * * *" || got["replicas"] != int64(7) {
		t.Errorf("spec %v", got)
	}
	s.apply(t, "a", "v1", "cronSpec: '3 * * * *'")
	if got := spec(); got["image"] != nil || got["cronSpec"] != "3 * * * *" || got["replicas"] != int64(7) {
		t.Errorf("after a gave the image up: spec %v", got)
	}
	s.apply(t, "b", "v1", "image: example.com/b")
	if got := spec(); got["replicas"] != nil || got["image"] != "example.com/b" {
		t.Errorf("after b gave replicas up: spec %v", got)
	}
}

// apply applies the object "applied" with the real kubectl.
func (s *subject) apply(t *testing.T, manager, version string, spec ...string) {
	t.Helper()
	kubectl, err := s.bed.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	manifest := "apiVersion: " + s.group + "/" + version + "\nkind: CronTab\nmetadata: {name: applied, namespace: default}\nspec:\n  " +
		strings.Join(spec, "\n  ") + "\n"
	command := exec.CommandContext(t.Context(), kubectl, "--kubeconfig", s.kubeconfig, "--cache-dir", t.TempDir(),
		"apply", "--server-side", "--field-manager", manager, "-f", "-")
	command.Stdin = strings.NewReader(manifest)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply as %s at %s: %v\n%s", manager, version, err, out)
	}
}

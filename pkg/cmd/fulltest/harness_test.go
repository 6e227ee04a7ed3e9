//go:build controlplane

package fulltest_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cmd"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// startFull starts a control plane of the test's own.
func startFull(t *testing.T, options testbed.FullOptions) *testbed.Full {
	t.Helper()
	bed, err := testbed.StartFull(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Stop)
	return bed
}

// subject is the CRD of one test, crontabs.GROUP, on the shared control plane.
type subject struct {
	bed   *testbed.Full
	group string
	name  string
	// kubeconfig is that of the user of most commands.
	kubeconfig string
}

// at returns the resource at a version.
func (s *subject) at(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: s.group, Version: version, Resource: testbed.CronTabPlural}
}

// cronTabs builds the CRD of a group; the first version is the storage version.
func cronTabs(group string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	crd := testbed.CronTabs(versions...)
	crd.Name, crd.Spec.Group = testbed.CronTabPlural+"."+group, group
	return crd
}

// object builds a CronTab of the subject's group.
func (s *subject) object(version, namespace, name string, i int) *unstructured.Unstructured {
	o := testbed.NewCronTab(version, namespace, name, i)
	o.SetAPIVersion(s.group + "/" + version)
	return o
}

// newSubject creates a CRD with n objects at its storage version.
func newSubject(t *testing.T, bed *testbed.Full, group string, n int, versions ...string) *subject {
	t.Helper()
	return subjectOf(t, bed, cronTabs(group, versions...), n)
}

func subjectOf(t *testing.T, bed *testbed.Full, crd *apiextensionsv1.CustomResourceDefinition, n int) *subject {
	t.Helper()
	s := &subject{bed: bed, group: crd.Spec.Group, name: crd.Name, kubeconfig: kubeconfigOf(t, bed.Config())}
	if _, err := testbed.CreateCRD(t.Context(), bed.Config(), crd); err != nil {
		t.Fatal(err)
	}
	s.create(t, crd.Spec.Versions[0].Name, n)
	return s
}

// create creates n objects in the namespaces default and other.
func (s *subject) create(t *testing.T, version string, n int) {
	t.Helper()
	if err := testbed.CreateNamespaces(t.Context(), s.bed.Config(), "other"); err != nil {
		t.Fatal(err)
	}
	err := testbed.CreateObjects(t.Context(), s.bed.Config(), s.at(version), n, testbed.ObjectOptions{
		New: s.object, Namespaces: []string{"default", "other"},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func kubeconfigOf(t *testing.T, config *rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := testbed.WriteKubeconfig(path, config); err != nil {
		t.Fatal(err)
	}
	return path
}

// result is what one run of the plugin left behind.
type result struct {
	code           int
	stdout, stderr string
	args           []string
}

// run runs the plugin in this process as the subject's user.
func (s *subject) run(t *testing.T, args ...string) result {
	t.Helper()
	return s.runAs(t, s.kubeconfig, args...)
}

func (s *subject) runAs(t *testing.T, kubeconfig string, args ...string) result {
	t.Helper()
	return s.runTo(t, &watcher{}, kubeconfig, args...)
}

// runTo runs the plugin with a standard error of the caller's.
func (s *subject) runTo(t *testing.T, errOut *watcher, kubeconfig string, args ...string) result {
	t.Helper()
	if args[0] == "retire" && !slices.Contains(args, "--usage-window") {
		// The objects have just been written at the version; the tests are about something else.
		args = append(slices.Clone(args), "--allow-in-use")
	}
	var out bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: errOut}
	root := cmd.NewRootCommand(streams, cmd.WithVersion("v0.0.0-test"))
	root.SetArgs(append(args, "--kubeconfig", kubeconfig, "--cache-dir", filepath.Join(filepath.Dir(kubeconfig), "cache")))
	begin := time.Now()
	err := root.ExecuteContext(t.Context())
	cmd.PrintError(errOut, err)
	r := result{code: cmd.ExitCode(err), stdout: out.String(), stderr: errOut.String(), args: args}
	t.Logf("kubectl crdver %s: exit %d in %s", strings.Join(args, " "), r.code, time.Since(begin).Round(10*time.Millisecond))
	return r
}

// want checks the exit code and that each text is on stdout or stderr.
func (r result) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("%q: exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", r.args, r.code, code, r.stdout, r.stderr)
		return
	}
	for _, text := range texts {
		if !strings.Contains(r.stdout, text) && !strings.Contains(r.stderr, text) {
			t.Errorf("%q says nothing of %q\nstdout:\n%s\nstderr:\n%s", r.args, text, r.stdout, r.stderr)
		}
	}
}

// lacks checks that none of the texts is there.
func (r result) lacks(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(r.stdout, text) || strings.Contains(r.stderr, text) {
			t.Errorf("%q says %q\nstdout:\n%s\nstderr:\n%s", r.args, text, r.stdout, r.stderr)
		}
	}
}

// decode reads stdout as one JSON document.
func decode[T any](t *testing.T, r result) T {
	t.Helper()
	var document T
	if err := json.Unmarshal([]byte(r.stdout), &document); err != nil {
		t.Fatalf("%q: %v\nstdout:\n%s\nstderr:\n%s", r.args, err, r.stdout, r.stderr)
	}
	return document
}

// steps logs what the report of a run says of each step.
func (r result) steps(t *testing.T) {
	t.Helper()
	report := decode[v1alpha1.Report](t, r)
	for _, step := range report.Steps {
		took := time.Duration(0)
		if step.StartedAt != nil && step.FinishedAt != nil {
			took = step.FinishedAt.Sub(step.StartedAt.Time)
		}
		if step.Objects != nil {
			t.Logf("%s: %s in %s: %+v", step.ID, step.Outcome, took, *step.Objects)
		} else {
			t.Logf("%s: %s in %s", step.ID, step.Outcome, took)
		}
	}
	if report.Evidence != nil {
		t.Logf("proof after %d passes", report.Evidence.Passes)
	}
}

// status returns the CRD's row of "status -o json".
func (s *subject) status(t *testing.T) v1alpha1.CRDStatus {
	t.Helper()
	r := s.run(t, "status", s.name, "-o", "json")
	list := decode[v1alpha1.StatusList](t, r)
	if r.code != 0 || len(list.Items) != 1 {
		t.Fatalf("status: %+v", r)
	}
	return list.Items[0]
}

// crd reads the CRD.
func (s *subject) crd(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd, err := s.crds(t).Get(t.Context(), s.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return crd
}

func (s *subject) crds(t *testing.T) crdclient.CustomResourceDefinitionInterface {
	t.Helper()
	client, err := clientset.NewForConfig(s.bed.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client.ApiextensionsV1().CustomResourceDefinitions()
}

// stored checks from etcd how many objects are stored at which version.
func (s *subject) stored(t *testing.T, want map[string]int) {
	t.Helper()
	got, err := testbed.CountByVersion(t.Context(), s.bed.Etcd(), s.group, testbed.CronTabPlural)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Errorf("etcd has %v, want %v", got, want)
		return
	}
	for version, n := range want {
		if got[version] != n {
			t.Errorf("etcd has %v, want %v", got, want)
			return
		}
	}
}

// snapshot is everything that a command that writes nothing leaves as it was.
type snapshot struct {
	crd     string
	objects map[string]int64
}

func (s *subject) snapshot(t *testing.T) snapshot {
	t.Helper()
	objects, err := testbed.Stored(t.Context(), s.bed.Etcd(), s.group, testbed.CronTabPlural)
	if err != nil {
		t.Fatal(err)
	}
	shot := snapshot{crd: s.crd(t).ResourceVersion, objects: map[string]int64{}}
	for _, o := range objects {
		shot.objects[o.Key] = o.ModRevision
	}
	return shot
}

// unwritten checks that neither the CRD nor an object was written since.
func (s *subject) unwritten(t *testing.T, before snapshot) {
	t.Helper()
	after := s.snapshot(t)
	if after.crd != before.crd {
		t.Errorf("the CRD was written: resourceVersion %s -> %s", before.crd, after.crd)
	}
	if len(after.objects) != len(before.objects) {
		t.Errorf("%d objects, before %d", len(after.objects), len(before.objects))
	}
	for key, revision := range after.objects {
		if before.objects[key] != revision {
			t.Errorf("%s was written", key)
		}
	}
}

func kubeClient(t *testing.T, bed *testbed.Full) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(bed.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// objects is a client of the subject's objects in a namespace.
func (s *subject) objects(t *testing.T, version, namespace string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(s.bed.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(s.at(version)).Namespace(namespace)
}

// eventually waits until a check holds.
func eventually(t *testing.T, what string, limit time.Duration, check func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !check() {
		if time.Now().After(deadline) {
			t.Fatalf("not so after %s: %s", limit, what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/crdver/kubectl-crdver/pkg/cmd"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// bed is an API server in this process, and a kubeconfig that leads to it.
type bed struct {
	*testbed.InProcess
	kubeconfig string
}

func start(t *testing.T, options testbed.InProcessOptions) *bed {
	t.Helper()
	if testing.Short() {
		t.Skip("starts an API server")
	}
	server, err := testbed.StartInProcess(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	b := &bed{InProcess: server, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	if err := server.WriteKubeconfig(b.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return b
}

// result is what a command came to.
type result struct {
	code           int
	stdout, stderr string
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d\n--- stdout\n%s--- stderr\n%s", r.code, r.stdout, r.stderr)
}

// neverRead is a standard input that nothing may read.
type neverRead struct{ t *testing.T }

func (r neverRead) Read([]byte) (int, error) {
	r.t.Error("standard input was read")
	return 0, io.EOF
}

// lockedBuffer is written to from several goroutines.
type lockedBuffer struct {
	lock   sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.buffer.String()
}

// execute runs the root command with exactly these arguments.
func execute(ctx context.Context, in io.Reader, args ...string) result {
	return executeAt(ctx, in, nil, args...)
}

// allowInUse makes a retirement go on although the objects have just been written
// at the version: what the tests are about is something else, unless they say.
func allowInUse(args []string) []string {
	if len(args) > 1 && args[0] == "retire" && !slices.Contains(args, "--allow-in-use") && !slices.Contains(args, "--usage-window") {
		return append(slices.Clone(args), "--allow-in-use")
	}
	return args
}

// executeAt is execute at the time of a clock; nil for that of the server.
func executeAt(ctx context.Context, in io.Reader, clock func() time.Time, args ...string) result {
	var out, errOut lockedBuffer
	root := cmd.NewRootCommand(genericiooptions.IOStreams{In: in, Out: &out, ErrOut: &errOut}, cmd.WithClock(clock))
	root.SetArgs(allowInUse(args))
	err := root.ExecuteContext(ctx)
	cmd.PrintError(&errOut, err)
	return result{code: cmd.ExitCode(err), stdout: out.String(), stderr: errOut.String()}
}

// run runs a command on the bed. Nobody is at its standard input.
func (b *bed) run(t *testing.T, args ...string) result {
	t.Helper()
	return execute(t.Context(), neverRead{t}, append(args, "--kubeconfig", b.kubeconfig)...)
}

// must runs a command that has to end with a code.
func (b *bed) must(t *testing.T, code int, args ...string) result {
	t.Helper()
	got := b.run(t, args...)
	if got.code != code {
		t.Fatalf("kubectl crdver %s: want exit code %d, got %s", strings.Join(args, " "), code, got)
	}
	return got
}

// crontabs returns a CRD like testbed.CronTabs in a group of its own. The first
// version is the storage version.
func crontabs(group string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	c := testbed.CronTabs(versions...)
	c.Spec.Group = group
	c.Name = c.Spec.Names.Plural + "." + group
	return c
}

func (b *bed) createCRD(t *testing.T, c *apiextensionsv1.CustomResourceDefinition) string {
	t.Helper()
	if _, err := testbed.CreateCRD(t.Context(), b.Config(), c); err != nil {
		t.Fatal(err)
	}
	return c.Name
}

func resource(group, version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: testbed.CronTabPlural}
}

// newCronTab builds a CronTab of a group.
func newCronTab(group, version, namespace, name string, i int) *unstructured.Unstructured {
	object := testbed.NewCronTab(version, namespace, name, i)
	object.SetAPIVersion(group + "/" + version)
	return object
}

// createObjects creates n CronTabs through a version, in the namespaces in turn.
func (b *bed) createObjects(t *testing.T, group, version string, n int, namespaces ...string) {
	t.Helper()
	err := testbed.CreateObjects(t.Context(), b.Config(), resource(group, version), n, testbed.ObjectOptions{
		Namespaces: namespaces,
		New: func(version, namespace, name string, i int) *unstructured.Unstructured {
			return newCronTab(group, version, namespace, name, i)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// scene creates a CRD, v1beta1 stored and v1 served, with n objects.
func (b *bed) scene(t *testing.T, group string, n int) string {
	t.Helper()
	name := b.createCRD(t, crontabs(group, "v1beta1", "v1"))
	b.createObjects(t, group, "v1beta1", n, "a", "b")
	return name
}

func (b *bed) crds(t *testing.T) clientset.Interface {
	t.Helper()
	client, err := clientset.NewForConfig(b.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (b *bed) objects(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(b.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (b *bed) crd(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	c, err := b.crds(t).ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// updateCRD changes a CRD as somebody else would.
func (b *bed) updateCRD(t *testing.T, name string, change func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	if _, err := testbed.UpdateCRD(t.Context(), b.Config(), name, change); err != nil {
		t.Error(err)
	}
}

// writeCRD changes a CRD and does not wait until its objects can be read again:
// perhaps they never can.
func (b *bed) writeCRD(t *testing.T, name string, change func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		c := b.crd(t, name)
		change(c)
		_, err := b.crds(t).ApiextensionsV1().CustomResourceDefinitions().Update(t.Context(), c, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// patchStored sets status.storedVersions, as people do by hand.
func (b *bed) patchStored(t *testing.T, name string, stored ...string) {
	t.Helper()
	body := fmt.Sprintf(`{"status":{"storedVersions":["%s"]}}`, strings.Join(stored, `","`))
	_, err := b.crds(t).ApiextensionsV1().CustomResourceDefinitions().
		Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "by-hand"}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

// wantStored makes sure, from etcd, at which versions the objects are persisted.
func (b *bed) wantStored(t *testing.T, group string, want map[string]int) {
	t.Helper()
	got, err := testbed.CountByVersion(t.Context(), b.Etcd(), group, testbed.CronTabPlural)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: stored at %v, want %v", group, got, want)
	}
}

// wantVersions makes sure of the versions of the CRD and of its storedVersions.
func (b *bed) wantVersions(t *testing.T, name string, versions, stored []string) {
	t.Helper()
	c := b.crd(t, name)
	var got []string
	for _, v := range c.Spec.Versions {
		text := v.Name
		if !v.Served {
			text += " unserved"
		}
		if v.Storage {
			text += " storage"
		}
		got = append(got, text)
	}
	if !slices.Equal(got, versions) || !slices.Equal(c.Status.StoredVersions, stored) {
		t.Errorf("%s: versions %q, storedVersions %q; want %q, %q", name, got, c.Status.StoredVersions, versions, stored)
	}
}

// revisions returns when each key of the server in etcd was last written.
func (b *bed) revisions(t *testing.T) map[string]int64 {
	t.Helper()
	response, err := b.Etcd().Get(t.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int64{}
	for _, kv := range response.Kvs {
		all[string(kv.Key)] = kv.ModRevision
	}
	return all
}

// wantUnwritten makes sure that no key in etcd was written since before.
func (b *bed) wantUnwritten(t *testing.T, before map[string]int64) {
	t.Helper()
	after := b.revisions(t)
	if maps.Equal(before, after) {
		return
	}
	for key := range before {
		if after[key] != before[key] {
			t.Errorf("%s was written or deleted", key)
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok {
			t.Errorf("%s was created", key)
		}
	}
}

// traffic is a middleware that takes down what the tool asks for, and lets a
// test step in before a request is served.
type traffic struct {
	lock     sync.Mutex
	requests []string
	before   func(r *http.Request)
}

const dryRunMark = " (dry run)"

func (m *traffic) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.UserAgent(), "kubectl-crdver") {
			request := r.Method + " " + r.URL.Path
			if r.URL.Query().Get("dryRun") != "" {
				request += dryRunMark
			}
			m.lock.Lock()
			m.requests = append(m.requests, request)
			before := m.before
			m.lock.Unlock()
			if before != nil {
				before(r)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// stepIn has a function called before each request of the tool, nil for none.
func (m *traffic) stepIn(before func(r *http.Request)) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.before = before
}

// take returns the requests since the last call, reads apart.
func (m *traffic) take() (reads, dryRuns, writes []string) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, request := range m.requests {
		switch {
		case strings.HasPrefix(request, "GET "), strings.HasPrefix(request, "HEAD "):
			reads = append(reads, request)
		case strings.HasSuffix(request, dryRunMark):
			dryRuns = append(dryRuns, request)
		case strings.HasSuffix(request, "/selfsubjectaccessreviews"):
		default:
			writes = append(writes, request)
		}
	}
	m.requests = nil
	return reads, dryRuns, writes
}

// patchesCRD reports whether a request writes a CRD.
func patchesCRD(r *http.Request) bool {
	return r.Method == http.MethodPatch && r.URL.Query().Get("dryRun") == "" &&
		strings.Contains(r.URL.Path, "/customresourcedefinitions/") &&
		r.Header.Get("Content-Type") == string(types.JSONPatchType) // The hold is a merge patch.
}

// patchesObject reports whether a request writes a custom resource.
func patchesObject(r *http.Request) bool {
	return r.Method == http.MethodPatch && r.URL.Query().Get("dryRun") == "" &&
		strings.Contains(r.URL.Path, "/"+testbed.CronTabPlural+"/") && !strings.Contains(r.URL.Path, "customresourcedefinitions")
}

// contains makes sure that a text has all of some parts.
func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

// writeFile writes a file of the test and returns its path.
func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// errUnexpected marks what a test did not expect of the server.
var errUnexpected = errors.New("unexpected")

func dynamicFor(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

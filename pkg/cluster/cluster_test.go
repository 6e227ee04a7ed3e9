package cluster_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func start(t *testing.T, opts testbed.InProcessOptions) *testbed.InProcess {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts an API server")
	}
	bed, err := testbed.StartInProcess(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Stop)
	return bed
}

func newCluster(t *testing.T, config *rest.Config) *cluster.Cluster {
	t.Helper()
	c, err := cluster.New(config, "test")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// inGroup is the CRD of CronTabs in a group of its own.
func inGroup(group string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	crd := testbed.CronTabs(versions...)
	crd.Spec.Group, crd.Name = group, crd.Spec.Names.Plural+"."+group
	return crd
}

func TestCRDs(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	bed := start(t, testbed.InProcessOptions{})
	var names []string
	for i := range 7 {
		crd := inGroup(fmt.Sprintf("g%d.example.com", i), "v1beta1", "v1")
		crd.Labels = map[string]string{"odd": fmt.Sprint(i % 2)}
		if _, err := testbed.CreateCRD(ctx, bed.Config(), crd); err != nil {
			t.Fatal(err)
		}
		names = append(names, crd.Name)
	}
	crds := newCluster(t, bed.Config()).CRDs()
	list := func(options cluster.ListOptions, stop error) (seen []string, err error) {
		err = crds.List(ctx, options, func(crd *apiextensionsv1.CustomResourceDefinition) error {
			seen = append(seen, crd.Name)
			return stop
		})
		return seen, err
	}
	if seen, err := list(cluster.ListOptions{PageSize: 3}, nil); err != nil || !slices.Equal(seen, names) {
		t.Errorf("%v, %v", seen, err)
	}
	if seen, err := list(cluster.ListOptions{LabelSelector: "odd=1"}, nil); err != nil || len(seen) != 3 {
		t.Errorf("%v, %v", seen, err)
	}
	enough := errors.New("enough")
	if seen, err := list(cluster.ListOptions{}, enough); !errors.Is(err, enough) || len(seen) != 1 {
		t.Errorf("%v, %v", seen, err)
	}
	if _, err := crds.Get(ctx, "none.example.com"); !apierrors.IsNotFound(err) || !strings.HasPrefix(err.Error(), "reading CRD none.example.com: ") {
		t.Errorf("%v", err)
	}

	// Rule 4: a write with a test of the resourceVersion, which then is not that any more.
	crd, err := crds.Get(ctx, names[0])
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Appendf(nil, `[{"op":"test","path":"/metadata/resourceVersion","value":%q},{"op":"add","path":"/metadata/labels/x","value":"y"}]`, crd.ResourceVersion)
	request := cluster.PatchRequest{Type: types.JSONPatchType, Body: body, FieldManager: "tester", DryRun: true}
	if patched, err := crds.Patch(ctx, crd.Name, request); err != nil || patched.Labels["x"] != "y" {
		t.Errorf("dry run: %v", err)
	}
	request.DryRun = false
	patched, err := crds.Patch(ctx, crd.Name, request)
	if err != nil || patched.Labels["x"] != "y" || patched.ResourceVersion == crd.ResourceVersion {
		t.Errorf("patch: %v", err)
	}
	if !slices.ContainsFunc(patched.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == "tester" }) {
		t.Errorf("managers: %v", patched.ManagedFields)
	}
	if _, err := crds.Patch(ctx, crd.Name, request); err == nil {
		t.Error("a patch for an old resourceVersion was accepted")
	}
	// Fact 7: storedVersions changes through the status subresource only.
	trim := cluster.PatchRequest{Type: types.JSONPatchType, Body: []byte(`[{"op":"replace","path":"/status/storedVersions","value":["v1beta1","v1"]}]`)}
	if patched, err := crds.Patch(ctx, crd.Name, trim); err != nil || len(patched.Status.StoredVersions) != 1 {
		t.Errorf("%v, %v", patched.Status.StoredVersions, err)
	}
	trim.Subresource = "status"
	if patched, err := crds.Patch(ctx, crd.Name, trim); err != nil || len(patched.Status.StoredVersions) != 2 {
		t.Errorf("%v, %v", patched.Status.StoredVersions, err)
	}
}

func TestObjects(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	bed := start(t, testbed.InProcessOptions{})
	if _, err := testbed.CreateCRD(ctx, bed.Config(), testbed.CronTabs("v1beta1", "v1")); err != nil {
		t.Fatal(err)
	}
	objects := newCluster(t, bed.Config()).Objects(testbed.CronTabResource("v1"))
	if count, exact, err := objects.Count(ctx); err != nil || count != 0 || !exact {
		t.Errorf("%d, %t, %v", count, exact, err)
	}
	err := testbed.CreateObjects(ctx, bed.Config(), testbed.CronTabResource("v1"), 25, testbed.ObjectOptions{Namespaces: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if count, exact, err := objects.Count(ctx); err != nil || count != 25 || !exact {
		t.Errorf("%d, %t, %v", count, exact, err)
	}
	page, err := objects.ListMetadata(ctx, cluster.PageOptions{Limit: 10})
	if err != nil || len(page.Items) != 10 || page.Continue == "" || page.RemainingItemCount == nil || *page.RemainingItemCount != 15 {
		t.Fatalf("%v, %v", page, err)
	}
	if page, err = objects.ListMetadata(ctx, cluster.PageOptions{Continue: page.Continue}); err != nil || len(page.Items) != 15 || page.Continue != "" {
		t.Errorf("%d objects, %v", len(page.Items), err)
	}
	if page, err = objects.ListMetadata(ctx, cluster.PageOptions{Namespace: "b", FreshConnection: true}); err != nil || len(page.Items) != 12 {
		t.Errorf("%d objects, %v", len(page.Items), err)
	}
	whole, err := objects.List(ctx, cluster.PageOptions{Limit: 5})
	if err != nil || len(whole.Items) != 5 || whole.GetContinue() == "" || *whole.GetRemainingItemCount() != 20 {
		t.Fatalf("%v, %v", whole, err)
	}
	key := types.NamespacedName{Namespace: "a", Name: "object-000002"}
	object, err := objects.Get(ctx, key)
	if err != nil || object.Object["spec"].(map[string]any)["replicas"] != int64(2) {
		t.Errorf("%v, %v", object, err)
	}
	patch := cluster.PatchRequest{Type: types.MergePatchType, Body: []byte(`{"spec":{"replicas":5}}`), DryRun: true}
	object, err = objects.Patch(ctx, key, patch)
	if err != nil || object.Object["spec"].(map[string]any)["replicas"] != int64(5) {
		t.Errorf("%v, %v", object, err)
	}
	patch.DryRun, patch.FreshConnection = false, true
	metadata, err := objects.PatchMetadata(ctx, key, patch)
	if err != nil || metadata.Name != key.Name || metadata.ResourceVersion == object.GetResourceVersion() {
		t.Errorf("%v, %v", metadata, err)
	}
	if _, err := objects.Get(ctx, types.NamespacedName{Namespace: "a", Name: "none"}); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	bed := start(t, testbed.InProcessOptions{})
	if _, err := testbed.CreateCRD(ctx, bed.Config(), testbed.CronTabs("v1beta1", "v10", "foo1", "v1")); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, bed.Config())
	disco := c.Discovery()
	want := []string{"v10", "v1", "v1beta1", "foo1"}
	versions, preferred, err := disco.GroupVersions(ctx, testbed.CronTabGroup)
	if err != nil || preferred != "v10" || !slices.Equal(versions, want) {
		t.Errorf("%v, %s, %v", versions, preferred, err)
	}
	if versions, preferred, err := disco.GroupVersions(ctx, "none.example.com"); err != nil || preferred != "" || versions != nil {
		t.Errorf("%v, %s, %v", versions, preferred, err)
	}
	resource := testbed.CronTabResource("v1")
	aggregated, err := disco.AggregatedVersions(ctx, resource.GroupResource())
	t.Logf("aggregated: %v, %v", aggregated, err)
	if !errors.Is(err, cluster.ErrNotSupported) && (err != nil || !slices.Equal(aggregated, want)) {
		t.Errorf("%v, %v", aggregated, err)
	}
	hash, err := disco.StorageVersionHash(ctx, resource)
	if err != nil || hash == "" {
		t.Errorf("%q, %v", hash, err)
	}
	if services, err := disco.APIServices(ctx, testbed.CronTabGroup); err != nil || services != nil {
		t.Errorf("%v, %v", services, err)
	}
	resources, err := disco.ListableResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	found := slices.ContainsFunc(resources, func(r cluster.Resource) bool {
		return r == cluster.Resource{GroupVersionResource: testbed.CronTabResource("v10"), Kind: "CronTab", Namespaced: true}
	})
	if !found || !slices.ContainsFunc(resources, func(r cluster.Resource) bool { return r.Kind == "CustomResourceDefinition" }) {
		t.Errorf("%v", resources)
	}
}

// What the in-process server does not have: the tool must cope.
func TestSmallServer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	bed := start(t, testbed.InProcessOptions{})
	crd := testbed.CronTabs("v1beta1", "v1")
	text := "stable.example.com/v1beta1 CronTab is going away"
	version := testbed.Version(crd, "v1beta1")
	version.Deprecated, version.DeprecationWarning = true, &text
	if _, err := testbed.CreateCRD(ctx, bed.Config(), crd); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, bed.Config())
	if _, err := c.MissingRules(ctx, []cluster.Rule{{Verb: "patch", Resource: "crontabs"}}); !errors.Is(err, cluster.ErrNotSupported) {
		t.Errorf("%v", err)
	}
	if migrations, err := c.Migrations(ctx, schema.GroupResource{Group: testbed.CronTabGroup, Resource: "crontabs"}); err != nil || migrations != nil {
		t.Errorf("%v, %v", migrations, err)
	}
	identity, err := c.Identity(ctx)
	if err != nil || identity.Server != bed.Config().Host || identity.Context != "test" || identity.KubeSystemUID != "" {
		t.Errorf("%+v, %v", identity, err)
	}
	// Fact 8.
	warnings, err := c.Warnings(ctx, testbed.CronTabResource("v1beta1"))
	if diff := cmp.Diff([]string{text}, warnings); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if warnings, err = c.Warnings(ctx, testbed.CronTabResource("v1")); err != nil || warnings != nil {
		t.Errorf("%v, %v", warnings, err)
	}
}

// Each fresh request opens a connection and closes it; the others share one.
func TestFreshConnections(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	bed := start(t, testbed.InProcessOptions{})
	if _, err := testbed.CreateCRD(ctx, bed.Config(), testbed.CronTabs("v1")); err != nil {
		t.Fatal(err)
	}
	var opened, closed atomic.Int64
	proxy := startProxy(t, bed.Config(), func(state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed.Add(1)
		default:
		}
	})
	c := newCluster(t, proxy)
	objects := c.Objects(testbed.CronTabResource("v1"))
	for range 5 {
		if _, err := objects.ListMetadata(ctx, cluster.PageOptions{Limit: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if opened.Load() != 1 {
		t.Errorf("%d connections for 5 ordinary requests", opened.Load())
	}
	for range 4 {
		if _, err := c.Discovery().StorageVersionHash(ctx, testbed.CronTabResource("v1")); err != nil {
			t.Fatal(err)
		}
		if _, err := objects.ListMetadata(ctx, cluster.PageOptions{Limit: 1, FreshConnection: true}); err != nil {
			t.Fatal(err)
		}
	}
	if opened.Load() != 9 {
		t.Errorf("%d connections, want 9", opened.Load())
	}
	for deadline := time.Now().Add(5 * time.Second); closed.Load() < 8; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections were closed, want 8", closed.Load())
		}
	}
}

// startProxy starts a reverse proxy and returns a configuration that leads
// through it.
func startProxy(t *testing.T, config *rest.Config, connection func(http.ConnState)) *rest.Config {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport,
	})
	proxy.EnableHTTP2 = true
	proxy.Config.ConnState = func(_ net.Conn, state http.ConnState) { connection(state) }
	proxy.StartTLS()
	t.Cleanup(proxy.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})
	return &rest.Config{Host: proxy.URL, TLSClientConfig: rest.TLSClientConfig{CAData: certificate}}
}

func TestErrorsOfAServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	c := newCluster(t, &rest.Config{Host: "http://127.0.0.1:1"})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := c.Identity(ctx); !cluster.Transient(err) {
		t.Errorf("%v", err)
	}
	if _, err := c.Objects(testbed.CronTabResource("v1")).ListMetadata(ctx, cluster.PageOptions{}); !cluster.Transient(err) {
		t.Errorf("%v", err)
	}
}

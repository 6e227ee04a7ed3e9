package storagemigration_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func start(t testing.TB, opts testbed.InProcessOptions) *testbed.InProcess {
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

// startWithCronTabs starts a bed with n CronTabs in two namespaces, persisted at
// v1beta1 while v1beta1 and v1 are served.
func startWithCronTabs(t testing.TB, n int, opts testbed.InProcessOptions) *testbed.InProcess {
	t.Helper()
	bed := start(t, opts)
	if _, err := testbed.CreateCRD(t.Context(), bed.Config(), testbed.CronTabs("v1beta1", "v1")); err != nil {
		t.Fatal(err)
	}
	createCronTabs(t, bed, n)
	return bed
}

func createCronTabs(t testing.TB, bed testbed.Bed, n int) {
	t.Helper()
	options := testbed.ObjectOptions{Namespaces: []string{"a", "b"}}
	if err := testbed.CreateObjects(t.Context(), bed.Config(), testbed.CronTabResource("v1"), n, options); err != nil {
		t.Fatal(err)
	}
}

func updateCRD(t testing.TB, bed testbed.Bed, change func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	if _, err := testbed.UpdateCRD(t.Context(), bed.Config(), testbed.CronTabCRD, change); err != nil {
		t.Fatal(err)
	}
}

func flip(t testing.TB, bed testbed.Bed, version string) {
	t.Helper()
	updateCRD(t, bed, func(crd *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(crd, version) })
}

// flipAndWait makes v1 the storage version and waits with the barrier.
func flipAndWait(t testing.TB, bed testbed.Bed) {
	t.Helper()
	flip(t, bed, "v1")
	if err := storagemigration.Barrier(t.Context(), newCluster(t, bed.Config()), barrierOptions()); err != nil {
		t.Fatal(err)
	}
}

func barrierOptions() storagemigration.BarrierOptions {
	return storagemigration.BarrierOptions{
		Resource:     testbed.CronTabResource("v1"),
		ExpectedHash: storagemigration.StorageVersionHash(testbed.CronTabGroup, "v1", testbed.CronTabKind),
	}
}

func newCluster(t testing.TB, config *rest.Config) *cluster.Cluster {
	t.Helper()
	c, err := cluster.New(config, "test")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func cronTabs(t testing.TB, config *rest.Config, version string) cluster.Objects {
	t.Helper()
	return newCluster(t, config).Objects(testbed.CronTabResource(version))
}

func dynamicClient(t testing.TB, config *rest.Config, version string) dynamic.NamespaceableResourceInterface {
	t.Helper()
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(testbed.CronTabResource(version))
}

// stored reads the CronTabs from etcd, by namespace/name.
func stored(t testing.TB, bed testbed.Bed) map[string]testbed.StoredObject {
	t.Helper()
	list, err := testbed.Stored(t.Context(), bed.Etcd(), testbed.CronTabGroup, testbed.CronTabPlural)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]testbed.StoredObject{}
	for _, object := range list {
		objects[object.Namespace+"/"+object.Name] = object
	}
	return objects
}

func wantStored(t testing.TB, bed testbed.Bed, want map[string]int) {
	t.Helper()
	got, err := testbed.CountByVersion(t.Context(), bed.Etcd(), testbed.CronTabGroup, testbed.CronTabPlural)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versions in etcd (-want +got):\n%s", diff)
	}
}

// specs returns the specs of stored objects.
func specs(t testing.TB, objects map[string]testbed.StoredObject) map[string]any {
	t.Helper()
	specs := map[string]any{}
	for key, object := range objects {
		var body struct{ Spec map[string]any }
		if err := object.Unmarshal(&body); err != nil {
			t.Fatal(err)
		}
		specs[key] = body.Spec
	}
	return specs
}

func revisions(objects map[string]testbed.StoredObject) map[string]int64 {
	revisions := map[string]int64{}
	for key, object := range objects {
		revisions[key] = object.ModRevision
	}
	return revisions
}

// wantSum checks that the outcomes add up to the objects listed.
func wantSum(t testing.TB, result storagemigration.PassResult) {
	t.Helper()
	c := result.Counts
	if c.Listed != c.Rewritten+c.Current+c.Changed+c.Deleted+c.Refused+c.Failed {
		t.Errorf("the outcomes do not add up to the objects listed: %+v", c)
	}
}

// groupCRD is the CRD of CronTabs in a group of its own, for tests that need
// many of them on one server.
func groupCRD(group string) *apiextensionsv1.CustomResourceDefinition {
	crd := testbed.CronTabs("v1beta1", "v1")
	crd.Spec.Group, crd.Name = group, crd.Spec.Names.Plural+"."+group
	return crd
}

func groupCronTab(group string) func(version, namespace, name string, i int) *unstructured.Unstructured {
	return func(version, namespace, name string, i int) *unstructured.Unstructured {
		object := testbed.NewCronTab(version, namespace, name, i)
		object.SetAPIVersion(schema.GroupVersion{Group: group, Version: version}.String())
		return object
	}
}

// A fault is what a proxy does to a request.
type fault int

const (
	pass        fault = iota
	throttle          // 429 with Retry-After, the server never sees the request.
	unavailable       // 503 likewise.
	cutBefore         // The stream is reset, the server never sees the request.
	cutAfter          // The server answers, and the stream is reset instead.
)

// proxy is a testbed.Proxy that breaks some requests.
type proxy struct {
	*testbed.Proxy
	faults atomic.Int64
}

// server is a part of a bed.
type server interface{ Config() *rest.Config }

func startProxy(t testing.TB, decide func(*http.Request) fault, servers ...server) *proxy {
	t.Helper()
	return startProxyOfStreams(t, 250, decide, servers...)
}

// startProxyOfStreams allows so many streams at a time in each connection.
func startProxyOfStreams(t testing.TB, maxStreams int, decide func(*http.Request) fault, servers ...server) *proxy {
	t.Helper()
	configs := make([]*rest.Config, 0, len(servers))
	for _, server := range servers {
		configs = append(configs, server.Config())
	}
	inner, err := testbed.StartProxyOfStreams(t.Context(), maxStreams, configs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(inner.Stop)
	p := &proxy{Proxy: inner}
	p.setDecide(decide)
	return p
}

func (p *proxy) setDecide(decide func(*http.Request) fault) {
	p.StepIn(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		what := pass
		if decide != nil {
			what = decide(r)
		}
		if what != pass {
			p.faults.Add(1)
		}
		switch what {
		case throttle:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "slow down", http.StatusTooManyRequests)
		case unavailable:
			http.Error(w, "no endpoints", http.StatusServiceUnavailable)
		case cutBefore:
			panic(http.ErrAbortHandler)
		case cutAfter:
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// relay is a TCP relay that delays each direction by half a round trip and
// counts the bytes.
type relay struct {
	net.Listener
	bytes atomic.Int64
}

func startRelay(t testing.TB, config *rest.Config, roundTrip time.Duration) (*rest.Config, *relay) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: listener}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target.Host)
			if err != nil {
				_ = client.Close()
				return
			}
			go r.forward(client, server, roundTrip/2)
			go r.forward(server, client, roundTrip/2)
		}
	}()
	config = rest.CopyConfig(config)
	config.Host = "https://" + listener.Addr().String()
	return config, r
}

func (r *relay) forward(from, to net.Conn, delay time.Duration) {
	type chunk struct {
		data []byte
		due  time.Time
	}
	chunks := make(chan chunk, 4096)
	go func() {
		defer func() { _ = to.Close() }()
		for c := range chunks {
			time.Sleep(time.Until(c.due))
			if _, err := to.Write(c.data); err != nil {
				return
			}
		}
	}()
	defer close(chunks)
	for {
		buffer := make([]byte, 16<<10)
		n, err := from.Read(buffer)
		r.bytes.Add(int64(n))
		if n > 0 {
			chunks <- chunk{data: buffer[:n], due: time.Now().Add(delay)}
		}
		if err != nil {
			return
		}
	}
}

var errStop = errors.New("enough")

func name(i int) string { return fmt.Sprintf("object-%06d", i) }

// hangingObjects never answers a patch until its context ends.
type hangingObjects struct {
	cluster.Objects
	hang    <-chan struct{}
	hanging *atomic.Int64
}

func (o hangingObjects) PatchMetadata(ctx context.Context, _ types.NamespacedName, _ cluster.PatchRequest) (*metav1.PartialObjectMetadata, error) {
	o.hanging.Add(1)
	select {
	case <-o.hang:
		return nil, errors.New("the test is over")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// expiringObjects makes continue tokens expire before each page but the first.
type expiringObjects struct {
	cluster.Objects
	expire  func()
	expired *atomic.Int64
}

func (o expiringObjects) ListMetadata(ctx context.Context, options cluster.PageOptions) (*metav1.PartialObjectMetadataList, error) {
	if options.Continue != "" {
		o.expire()
	}
	page, err := o.Objects.ListMetadata(ctx, options)
	if apierrors.IsResourceExpired(err) {
		o.expired.Add(1)
	}
	return page, err
}

package storagemigration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/discovery"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func TestStorageVersionHashIsUpstreams(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"CronTab", "Foo"} {
		if got, want := storagemigration.StorageVersionHash("example.com", "v1", kind), discovery.StorageVersionHash("example.com", "v1", kind); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Fact 3, and must-show 5 of issue 2: with the storage flip and the migration
// back to back, 50 runs leave nothing at the old version. The runs are of 50 CRDs
// on one server, several at a time; in each, a writer goes on updating through
// the flip.
func TestFlipAndMigrateBackToBack(t *testing.T) {
	t.Parallel()
	const runs, perRun = 50, 6
	bed := start(t, testbed.InProcessOptions{})
	ctx := t.Context()
	group := new(errgroup.Group)
	group.SetLimit(10)
	var mu sync.Mutex
	var total, unguarded int
	for run := range runs {
		name := fmt.Sprintf("run%02d.example.com", run)
		group.Go(func() error {
			rewritten, early, err := flipAndMigrate(ctx, bed, name, perRun)
			mu.Lock()
			total, unguarded = total+rewritten, unguarded+early
			mu.Unlock()
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d runs: %d objects rewritten after the barrier; without it, the first write after the flip landed at the old version in %d runs", runs, total, unguarded)
	for run := range runs {
		counts, err := testbed.CountByVersion(ctx, bed.Etcd(), fmt.Sprintf("run%02d.example.com", run), testbed.CronTabPlural)
		if err != nil || len(counts) != 1 || counts["v1"] != perRun {
			t.Errorf("run %d: %v, %v", run, counts, err)
		}
	}
}

// flipAndMigrate does one run. early is 1 if a write that was sent as soon as the
// flip was answered landed at the old version.
func flipAndMigrate(ctx context.Context, bed *testbed.InProcess, group string, n int) (rewritten, early int, err error) {
	crd := groupCRD(group)
	if _, err := testbed.CreateCRD(ctx, bed.Config(), crd); err != nil {
		return 0, 0, err
	}
	gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: testbed.CronTabPlural}
	if err := testbed.CreateObjects(ctx, bed.Config(), gvr, n, testbed.ObjectOptions{New: groupCronTab(group)}); err != nil {
		return 0, 0, err
	}
	c, err := cluster.New(bed.Config(), "test")
	if err != nil {
		return 0, 0, err
	}
	objects := c.Objects(gvr)
	flip := []byte(`[{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true}]`)
	if _, err := c.CRDs().Patch(ctx, crd.Name, cluster.PatchRequest{Type: types.JSONPatchType, Body: flip}); err != nil {
		return 0, 0, err
	}

	// One real change at once, as a writer that knows nothing of this would send.
	key := types.NamespacedName{Namespace: "default", Name: name(n - 1)}
	if _, err := objects.PatchMetadata(ctx, key, cluster.PatchRequest{Type: types.MergePatchType, Body: []byte(`{"spec":{"replicas":99}}`)}); err != nil {
		return 0, 0, err
	}
	list, err := testbed.Stored(ctx, bed.Etcd(), group, testbed.CronTabPlural)
	if err != nil {
		return 0, 0, err
	}
	if list[n-1].Version() != "v1" {
		early = 1
	}

	err = storagemigration.Barrier(ctx, c, storagemigration.BarrierOptions{
		Resource: gvr, ExpectedHash: storagemigration.StorageVersionHash(group, "v1", testbed.CronTabKind),
	})
	if err != nil {
		return 0, early, err
	}
	result, err := storagemigration.Pass(ctx, objects, storagemigration.PassOptions{})
	if err != nil {
		return 0, early, err
	}
	verified, err := storagemigration.Verify(ctx, objects, storagemigration.VerifyOptions{})
	if err != nil {
		return 0, early, err
	}
	// The barrier worked if nothing had to be rewritten twice.
	if !verified.Evidence.Complete || verified.Evidence.Passes != 1 {
		return 0, early, fmt.Errorf("%s: %+v", group, verified)
	}
	return int(result.Counts.Rewritten), early, nil
}

// Two API servers behind one address; one of them does not learn of the flip for
// as long as the test wants. It goes on persisting at the old version.
func TestBarrierWaitsForASlowServer(t *testing.T) {
	t.Parallel()
	const n = 31 // Odd, so that in the next pass each object meets the other server.
	ctx := t.Context()
	fast := startWithCronTabs(t, n, testbed.InProcessOptions{})
	held := testbed.NewHeldCRDs()
	slow := start(t, testbed.InProcessOptions{Etcd: fast.EmbeddedEtcd(), Middleware: held.Middleware})
	defer held.Release()
	if _, err := testbed.WaitForCRD(ctx, slow.Config(), testbed.CronTabCRD); err != nil {
		t.Fatal(err)
	}
	p := startProxy(t, nil, fast, slow)
	balanced := newCluster(t, p.Config())

	held.Hold()
	flipOn(t, newCluster(t, fast.Config()))
	waitUntil(t, func() bool {
		hash, err := newCluster(t, fast.Config()).Discovery().StorageVersionHash(ctx, testbed.CronTabResource("v1"))
		return err == nil && hash == barrierOptions().ExpectedHash
	})

	// What the barrier protects from: through the slow server, a pass finds all
	// objects current, at the old version.
	misled, err := storagemigration.Pass(ctx, cronTabs(t, slow.Config(), "v1"), storagemigration.PassOptions{})
	if err != nil || !misled.Clean() || misled.Counts.Current != n {
		t.Errorf("a pass through the slow server: %+v, %v", misled, err)
	}
	wantStored(t, fast, map[string]int{"v1beta1": n})

	// The hash shows it.
	options := barrierOptions()
	options.Timeout = 5 * time.Second
	err = storagemigration.Barrier(ctx, balanced, options)
	t.Logf("with the hash: %v", err)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "a server that has not switched") {
		t.Errorf("barrier with the hash: %v", err)
	}
	// So do the canaries, without any hash: each server undoes the other's work.
	options.ExpectedHash, options.SettleBlind = "", 100*time.Millisecond
	err = storagemigration.Barrier(ctx, balanced, options)
	t.Logf("with canaries only: %v", err)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "rewrite back and forth") {
		t.Errorf("barrier with canaries only: %v", err)
	}
	// And a verification that is spread over both never comes to a clean pass.
	verified, err := storagemigration.Verify(ctx, spreadObjects{Objects: balanced.Objects(testbed.CronTabResource("v1"))}, storagemigration.VerifyOptions{
		MaxPasses: 4, PassOptions: storagemigration.PassOptions{Concurrency: 1},
	})
	t.Logf("verification: %+v, %v", verified, err)
	if err != nil || verified.Clean || verified.Evidence.Complete || verified.Evidence.Passes != 4 || !strings.Contains(verified.Reason, "still persists at another version") {
		t.Errorf("verification: %+v, %v", verified, err)
	}

	// The server catches up while the barrier waits.
	options = barrierOptions()
	released := make(chan time.Time, 1)
	time.AfterFunc(1500*time.Millisecond, func() {
		released <- time.Now()
		held.Release()
	})
	if err := storagemigration.Barrier(ctx, balanced, options); err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(<-released); waited < 2*time.Second {
		t.Errorf("the barrier opened %s after the slow server may have learned of the flip", waited)
	}
	if _, err := storagemigration.Pass(ctx, cronTabs(t, slow.Config(), "v1"), storagemigration.PassOptions{}); err != nil {
		t.Fatal(err)
	}
	wantStored(t, fast, map[string]int{"v1": n})
	held.Hold() // For the deferred release.
}

func flipOn(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	body := []byte(`[{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true}]`)
	if _, err := c.CRDs().Patch(t.Context(), testbed.CronTabCRD, cluster.PatchRequest{Type: types.JSONPatchType, Body: body}); err != nil {
		t.Fatal(err)
	}
}

// spreadObjects sends each patch over a connection of its own, as a balancer of
// requests would spread them.
type spreadObjects struct{ cluster.Objects }

func (o spreadObjects) PatchMetadata(ctx context.Context, key types.NamespacedName, request cluster.PatchRequest) (*metav1.PartialObjectMetadata, error) {
	request.FreshConnection = true
	return o.Objects.PatchMetadata(ctx, key, request)
}

// A storage version that is not served has no hash in discovery.
func TestBarrierWithoutAHash(t *testing.T) {
	t.Parallel()
	bed := startWithCronTabs(t, 4, testbed.InProcessOptions{})
	updateCRD(t, bed, func(crd *apiextensionsv1.CustomResourceDefinition) {
		testbed.SetStorageVersion(crd, "v1beta1")
		testbed.Version(crd, "v1beta1").Served = false
	})
	options := barrierOptions()
	options.ExpectedHash = storagemigration.StorageVersionHash(testbed.CronTabGroup, "v1beta1", testbed.CronTabKind)
	options.Matches, options.SettleBlind = 5, 300*time.Millisecond
	if err := storagemigration.Barrier(t.Context(), newCluster(t, bed.Config()), options); err != nil {
		t.Error(err)
	}
	// Without any served version, there is nothing to ask.
	options.Resource.Version = ""
	begin := time.Now()
	if err := storagemigration.Barrier(t.Context(), newCluster(t, bed.Config()), options); err != nil || time.Since(begin) < options.SettleBlind {
		t.Errorf("%v after %s", err, time.Since(begin))
	}
}

func TestBarrierEndsWithItsContext(t *testing.T) {
	t.Parallel()
	bed := startWithCronTabs(t, 1, testbed.InProcessOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	begin := time.Now()
	err := storagemigration.Barrier(ctx, newCluster(t, bed.Config()), barrierOptions()) // Nobody flips.
	if !errors.Is(err, context.Canceled) || time.Since(begin) > 10*time.Second {
		t.Errorf("%v after %s", err, time.Since(begin))
	}
}

// A write that a server took on before it switched is persisted at the old
// version even if a slow webhook lets it through only after the barrier, the
// migration and a clean verification. NotBefore is the way to see it.
func TestVerifyWaitsForWritesInHand(t *testing.T) {
	t.Parallel()
	const n = 20
	slow := &slowAdmission{entered: make(chan struct{}), release: make(chan struct{})}
	bed := startWithCronTabs(t, n, testbed.InProcessOptions{Admission: slow})
	client := dynamicClient(t, bed.Config(), "v1beta1").Namespace("b")

	written := make(chan error, 1)
	go func() {
		_, err := client.Patch(t.Context(), name(n-1), types.MergePatchType, []byte(`{"spec":{"image":"slow"}}`), metav1.PatchOptions{})
		written <- err
	}()
	<-slow.entered // The server has taken it on.
	flipAndWait(t, bed)
	objects := cronTabs(t, bed.Config(), "v1")
	if _, err := storagemigration.Pass(t.Context(), objects, storagemigration.PassOptions{}); err != nil {
		t.Fatal(err)
	}
	early, err := storagemigration.Verify(t.Context(), objects, storagemigration.VerifyOptions{})
	if err != nil || !early.Evidence.Complete {
		t.Fatalf("%+v, %v", early, err)
	}
	wantStored(t, bed, map[string]int{"v1": n})
	select {
	case err := <-written:
		t.Fatalf("the write came too early for this test: %v", err)
	default:
	}

	// The verification that takes such writes into account.
	time.AfterFunc(time.Second, func() { close(slow.release) })
	verified, err := storagemigration.Verify(t.Context(), objects, storagemigration.VerifyOptions{NotBefore: time.Now().Add(5 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", verified)
	if !verified.Evidence.Complete || verified.Evidence.Passes != 3 || verified.Rewritten != 1 {
		t.Errorf("%+v", verified)
	}
	wantStored(t, bed, map[string]int{"v1": n})
}

// slowAdmission holds the first update that sets spec.image to "slow" until it is
// released.
type slowAdmission struct {
	entered chan struct{}
	release chan struct{}
	once    sync.Once
}

func (s *slowAdmission) Handles(operation admission.Operation) bool {
	return operation == admission.Update
}

func (s *slowAdmission) Validate(ctx context.Context, attributes admission.Attributes, _ admission.ObjectInterfaces) error {
	object, ok := attributes.GetObject().(interface{ UnstructuredContent() map[string]any })
	if !ok {
		return nil
	}
	spec, _ := object.UnstructuredContent()["spec"].(map[string]any)
	if spec["image"] != "slow" {
		return nil
	}
	s.once.Do(func() {
		close(s.entered)
		select {
		case <-s.release:
		case <-ctx.Done():
		}
	})
	return nil
}

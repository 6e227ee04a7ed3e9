package storagemigration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// Writers create, update and delete at both versions while the objects are
// rewritten. Nothing they wrote may be undone, and nothing be left behind.
func TestPassAmongWriters(t *testing.T) {
	t.Parallel()
	const n = 600
	bed := startWithCronTabs(t, n, testbed.InProcessOptions{})
	flipAndWait(t, bed)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var (
		writers sync.WaitGroup
		writes  atomic.Int64
		mu      sync.Mutex
		want    = map[string]int64{} // spec.replicas of what each writer left.
		gone    = map[string]bool{}
	)
	for w, version := range []string{"v1", "v1beta1", "v1", "v1beta1"} {
		client := dynamicClient(t, bed.Config(), version)
		writers.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				i := 4*rand.N(n/4) + w // Each writer has its own objects.
				namespace := []string{"a", "b"}[i%2]
				key := namespace + "/" + name(i)
				replicas := int64(1000*(round+1) + w)
				deleted, err := write(ctx, client.Namespace(namespace), version, namespace, name(i), replicas, round%3 == 2)
				if ctx.Err() != nil {
					// It may or may not have happened.
					mu.Lock()
					delete(want, key)
					delete(gone, key)
					mu.Unlock()
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				writes.Add(1)
				mu.Lock()
				want[key], gone[key] = replicas, deleted
				mu.Unlock()
			}
		})
	}
	objects := cronTabs(t, bed.Config(), "v1")
	result, err := storagemigration.Pass(t.Context(), objects, storagemigration.PassOptions{PageSize: 50, Concurrency: 4})
	if err != nil {
		t.Fatal(err)
	}
	verified, err := storagemigration.Verify(t.Context(), objects, storagemigration.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	writers.Wait()
	t.Logf("%d writes; %+v; verified with %+v in %d passes", writes.Load(), result.Counts, verified.Evidence.Objects, verified.Evidence.Passes)
	wantSum(t, result)
	if result.Counts.Failed != 0 || !verified.Clean || !verified.Evidence.Complete {
		t.Errorf("first pass %+v, verified %+v", result, verified)
	}

	left := stored(t, bed)
	for key, object := range left {
		if object.Version() != "v1" {
			t.Errorf("%s is persisted at %s", key, object.Version())
		}
	}
	got := map[string]int64{}
	for key := range want {
		if object, exists := left[key]; exists {
			var body struct{ Spec struct{ Replicas int64 } }
			if err := object.Unmarshal(&body); err != nil {
				t.Fatal(err)
			}
			got[key] = body.Spec.Replicas
		}
		if gone[key] {
			delete(want, key) // So got must not have it either.
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the writers left (-want +got):\n%s", diff)
	}
}

// write creates or updates an object, or deletes it.
func write(ctx context.Context, client dynamic.ResourceInterface, version, namespace, name string, replicas int64, remove bool) (deleted bool, err error) {
	if remove {
		err := client.Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return true, err
	}
	body := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err = client.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(ctx, testbed.NewCronTab(version, namespace, name, int(replicas)), metav1.CreateOptions{})
	}
	return false, err
}

// An object that somebody else deletes or writes between the list and the patch
// stays deleted, or as it was written.
func TestPassLosesEveryRace(t *testing.T) {
	t.Parallel()
	const n = 20
	bed := startWithCronTabs(t, n, testbed.InProcessOptions{})
	flipAndWait(t, bed)
	client := dynamicClient(t, bed.Config(), "v1beta1")

	// The patches are made when the list is there and before they are sent.
	outcomes, mu := map[string]storagemigration.Outcome{}, sync.Mutex{}
	options := storagemigration.PassOptions{
		Patch: func(object *metav1.PartialObjectMetadata) ([]byte, bool, error) {
			ctx, objects := t.Context(), client.Namespace(object.Namespace)
			switch object.Name {
			case name(5): // Deleted.
				if err := objects.Delete(ctx, object.Name, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			case name(6): // Deleted and created again.
				if err := objects.Delete(ctx, object.Name, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
				if _, err := objects.Create(ctx, testbed.NewCronTab("v1beta1", object.Namespace, object.Name, 66), metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			case name(7): // Written.
				if _, err := objects.Patch(ctx, object.Name, types.MergePatchType, []byte(`{"spec":{"replicas":77}}`), metav1.PatchOptions{}); err != nil {
					t.Error(err)
				}
			case name(8):
				return nil, true, nil
			case name(9):
				return nil, false, errors.New("no patch for this one")
			}
			return storagemigration.NoOpPatch(object)
		},
		Observe: func(object *metav1.PartialObjectMetadata, outcome storagemigration.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			outcomes[object.Name] = outcome
		},
	}
	result, err := storagemigration.Pass(t.Context(), cronTabs(t, bed.Config(), "v1"), options)
	if err != nil {
		t.Fatal(err)
	}
	wantSum(t, result)
	want := map[string]storagemigration.Outcome{
		name(5): storagemigration.OutcomeDeleted,
		name(6): storagemigration.OutcomeChanged,
		name(7): storagemigration.OutcomeChanged,
		name(8): storagemigration.OutcomeCurrent,
		name(9): storagemigration.OutcomeFailed,
	}
	for object, outcome := range want {
		if outcomes[object] != outcome {
			t.Errorf("%s: %s, want %s", object, outcomes[object], outcome)
		}
	}
	left := stored(t, bed)
	if _, exists := left["b/"+name(5)]; exists || len(left) != n-1 {
		t.Errorf("the deleted object is back")
	}
	for key, replicas := range map[string]float64{"a/" + name(6): 66, "b/" + name(7): 77} {
		if got := specs(t, left)[key].(map[string]any)["replicas"]; got != replicas || left[key].Version() != "v1" {
			t.Errorf("%s: replicas %v at %s", key, got, left[key].Version())
		}
	}
	if diff := cmp.Diff([]string{name(9)}, failedNames(result)); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

func failedNames(result storagemigration.PassResult) []string {
	var names []string
	for _, failure := range result.Failures {
		names = append(names, failure.Name)
	}
	return names
}

// After the end of the context no work is handed out, requests in flight are
// awaited, and what was done is counted.
func TestPassIsCancelled(t *testing.T) {
	t.Parallel()
	const n = 400
	bed := startWithCronTabs(t, n, testbed.InProcessOptions{})
	flipAndWait(t, bed)
	p := startProxy(t, nil, bed)

	ctx, cancel := context.WithCancelCause(t.Context())
	var done atomic.Int64
	var cancelled time.Time
	result, err := storagemigration.Pass(ctx, cronTabs(t, p.Config(), "v1"), storagemigration.PassOptions{
		PageSize: 100, Concurrency: 16,
		Observe: func(*metav1.PartialObjectMetadata, storagemigration.Outcome) {
			if done.Add(1) == 150 {
				cancelled = time.Now()
				cancel(errStop)
			}
		},
	})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, errStop) {
		t.Errorf("error: %v", err)
	}
	if took := time.Since(cancelled); took > 10*time.Second {
		t.Errorf("it took %s to stop", took)
	}
	wantSum(t, result)
	if result.Complete || result.Counts.Listed < 150 || result.Counts.Listed > 150+16 {
		t.Errorf("result: %+v", result)
	}
	// What is counted is what etcd has: nothing was in flight without an answer.
	rewritten := 0
	for _, object := range stored(t, bed) {
		if object.Version() == "v1" {
			rewritten++
		}
	}
	if int64(rewritten) != result.Counts.Rewritten+result.Counts.Current {
		t.Errorf("%d objects are at v1, counted %+v", rewritten, result.Counts)
	}
	// Running again continues.
	result, err = storagemigration.Pass(t.Context(), cronTabs(t, bed.Config(), "v1"), storagemigration.PassOptions{})
	if err != nil || result.Counts.Current != int64(rewritten) || result.Counts.Rewritten != int64(n-rewritten) {
		t.Errorf("second run: %+v, %v", result, err)
	}
}

// A request that never ends does not keep a cancelled pass.
func TestPassIsCancelledWhileServerHangs(t *testing.T) {
	t.Parallel()
	bed := startWithCronTabs(t, 5, testbed.InProcessOptions{})
	hang := make(chan struct{})
	defer close(hang)
	var hanging atomic.Int64
	objects := hangingObjects{Objects: cronTabs(t, bed.Config(), "v1"), hang: hang, hanging: &hanging}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for hanging.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	begin := time.Now()
	result, err := storagemigration.Pass(ctx, objects, storagemigration.PassOptions{Grace: 100 * time.Millisecond})
	if !errors.Is(err, context.Canceled) || result.Counts.Listed != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestPassLimitsItsRate(t *testing.T) {
	t.Parallel()
	bed := startWithCronTabs(t, 40, testbed.InProcessOptions{})
	begin := time.Now()
	_, err := storagemigration.Pass(t.Context(), cronTabs(t, bed.Config(), "v1"), storagemigration.PassOptions{QPS: 20})
	if err != nil {
		t.Fatal(err)
	}
	// 41 requests, two of them at once.
	if took := time.Since(begin); took < 1900*time.Millisecond {
		t.Errorf("41 requests took %s at 20 a second", took)
	}
}

func TestPassInANamespaceProvesNothing(t *testing.T) {
	t.Parallel()
	bed := startWithCronTabs(t, 20, testbed.InProcessOptions{})
	flipAndWait(t, bed)
	objects := cronTabs(t, bed.Config(), "v1")
	narrowed := storagemigration.PassOptions{Namespace: "a"}
	result, err := storagemigration.Pass(t.Context(), objects, narrowed)
	if err != nil || result.Complete || result.Counts.Listed != 10 {
		t.Errorf("%+v, %v", result, err)
	}
	verified, err := storagemigration.Verify(t.Context(), objects, storagemigration.VerifyOptions{PassOptions: narrowed})
	if err != nil || !verified.Clean || verified.Evidence.Complete {
		t.Errorf("%+v, %v", verified, err)
	}
}

func TestPassDryRunWritesNothing(t *testing.T) {
	t.Parallel()
	bed := startWithCronTabs(t, 20, testbed.InProcessOptions{})
	flip(t, bed, "v1")
	before := etcdRevision(t, bed)
	result, err := storagemigration.Pass(t.Context(), cronTabs(t, bed.Config(), "v1"), storagemigration.PassOptions{DryRun: true})
	if err != nil || result.Counts.Current != 20 {
		t.Errorf("%+v, %v", result, err)
	}
	if after := etcdRevision(t, bed); after != before {
		t.Errorf("etcd went from revision %d to %d", before, after)
	}
	wantStored(t, bed, map[string]int{"v1beta1": 20})
}

//go:build controlplane

package storagemigration_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// Fact 3 on two real kube-apiservers behind one address: the flip goes through
// one of them, the migration through whichever the balancer chooses, and nothing
// is left behind in etcd, 20 times.
func TestFlipAndMigrateOnTwoServers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	bed, err := testbed.StartFull(ctx, testbed.FullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Stop)
	other, err := bed.StartAnotherAPIServer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const runs, n = 20, 40
	p := startProxy(t, nil, bed, other)
	var early atomic.Int64
	group := new(errgroup.Group)
	group.SetLimit(5)
	for run := range runs {
		group.Go(func() error {
			landedEarly, err := flipOnTwoServers(ctx, bed, other, p.Config(), fmt.Sprintf("run%02d.example.com", run), n)
			if landedEarly {
				early.Add(1)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d runs; without the barrier, a write through the other server landed at the old version in %d", runs, early.Load())
}

func flipOnTwoServers(ctx context.Context, bed *testbed.Full, other *testbed.APIServer, config *rest.Config, group string, n int) (early bool, err error) {
	gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: testbed.CronTabPlural}
	crd, err := testbed.CreateCRD(ctx, bed.Config(), groupCRD(group))
	if err != nil {
		return false, err
	}
	if _, err := testbed.WaitForCRD(ctx, other.Config(), crd.Name); err != nil {
		return false, err
	}
	if err := testbed.CreateObjects(ctx, bed.Config(), gvr, n, testbed.ObjectOptions{New: groupCronTab(group)}); err != nil {
		return false, err
	}
	one, err := cluster.New(bed.Config(), "one")
	if err != nil {
		return false, err
	}
	two, err := cluster.New(other.Config(), "two")
	if err != nil {
		return false, err
	}
	balanced, err := cluster.New(config, "balanced")
	if err != nil {
		return false, err
	}
	flip := []byte(`[{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true}]`)
	if _, err := one.CRDs().Patch(ctx, crd.Name, cluster.PatchRequest{Type: types.JSONPatchType, Body: flip}); err != nil {
		return false, err
	}
	// What a write through the other server does right now.
	key := types.NamespacedName{Namespace: "default", Name: name(n - 1)}
	change := cluster.PatchRequest{Type: types.MergePatchType, Body: []byte(`{"spec":{"replicas":99}}`)}
	if _, err := two.Objects(gvr).PatchMetadata(ctx, key, change); err != nil {
		return false, err
	}
	stored, err := testbed.Stored(ctx, bed.Etcd(), group, testbed.CronTabPlural)
	if err != nil {
		return false, err
	}
	early = stored[n-1].Version() != "v1"

	err = storagemigration.Barrier(ctx, balanced, storagemigration.BarrierOptions{
		Resource: gvr, ExpectedHash: storagemigration.StorageVersionHash(group, "v1", testbed.CronTabKind),
	})
	if err != nil {
		return early, err
	}
	objects := spreadObjects{Objects: balanced.Objects(gvr)}
	if _, err := storagemigration.Pass(ctx, objects, storagemigration.PassOptions{}); err != nil {
		return early, err
	}
	verified, err := storagemigration.Verify(ctx, objects, storagemigration.VerifyOptions{})
	if err != nil {
		return early, err
	}
	counts, err := testbed.CountByVersion(ctx, bed.Etcd(), group, testbed.CronTabPlural)
	if err != nil {
		return early, err
	}
	// The barrier worked if nothing had to be rewritten twice.
	if !verified.Evidence.Complete || verified.Evidence.Passes != 1 || len(counts) != 1 || counts["v1"] != n {
		return early, fmt.Errorf("%s: %+v, in etcd %v", group, verified, counts)
	}
	return early, nil
}

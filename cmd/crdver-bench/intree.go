package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/crdver/kubectl-crdver/pkg/bench"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// runInTree lets the controller of Kubernetes rewrite the objects. It is started
// for this run only: its garbage collector watches the objects, and would take
// CPU time from all others.
//
// The clock runs from the first object that it writes to the last one. What it
// does before, such as waiting until its cache has caught up, is not counted: it
// can take longer than the rewriting.
func (f *field) runInTree(ctx context.Context, proxy *relay) (bench.Outcome, error) {
	full := f.bed.full
	if full == nil {
		return bench.Outcome{}, errors.New("only the full control plane has the controller")
	}
	if err := full.StartControllerManagerAt(ctx, proxy.url()); err != nil {
		return bench.Outcome{}, err
	}
	defer full.StopControllerManager()
	ids := []int{full.ControllerManagerID()}
	if err := waitIdle(ctx, append(ids, f.bed.ids...), 20*time.Second); err != nil {
		return bench.Outcome{}, err
	}
	proxy.sent.Store(0) // What it took to start is not counted.
	proxy.received.Store(0)
	before, err := cpuOf(ids)
	if err != nil {
		return bench.Outcome{}, err
	}
	writes := watchWrites(ctx, f.bed.Etcd())
	if err := f.migrateInTree(ctx); err != nil {
		return bench.Outcome{}, err
	}
	count, took := writes()
	after, err := cpuOf(ids)
	if err != nil {
		return bench.Outcome{}, err
	}
	return bench.Outcome{
		Objects: count, Rewritten: count, Seconds: took.Seconds(), CPUSeconds: (after - before).Seconds(),
		PeakBytes: bench.PeakMemory(strconv.Itoa(ids[0])),
	}, nil
}

// migrateInTree creates a StorageVersionMigration and waits for its end.
func (f *field) migrateInTree(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(f.bed.Config())
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	migrations := client.StoragemigrationV1().StorageVersionMigrations()
	migration := &storagemigrationv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"},
		Spec: storagemigrationv1.StorageVersionMigrationSpec{
			Resource: metav1.GroupResource{Group: testbed.CronTabGroup, Resource: testbed.CronTabPlural},
		},
	}
	if migration, err = migrations.Create(ctx, migration, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a StorageVersionMigration: %w", err)
	}
	for {
		conditions := migration.Status.Conditions
		if meta.IsStatusConditionTrue(conditions, string(storagemigrationv1.MigrationFailed)) {
			return fmt.Errorf("the StorageVersionMigration failed: %+v", conditions)
		}
		if meta.IsStatusConditionTrue(conditions, string(storagemigrationv1.MigrationSucceeded)) {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if migration, err = migrations.Get(ctx, migration.Name, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("reading the StorageVersionMigration: %w", err)
		}
	}
	if err := migrations.Delete(ctx, migration.Name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting the StorageVersionMigration: %w", err)
	}
	return nil
}

// watchWrites counts the objects that are written from now on until the function
// is called, and the time between the first and the last.
func watchWrites(ctx context.Context, etcd *clientv3.Client) func() (int64, time.Duration) {
	ctx, stop := context.WithCancel(ctx)
	prefix := "/registry/" + testbed.CronTabGroup + "/" + testbed.CronTabPlural + "/"
	events := etcd.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithFilterDelete())
	var count int64
	var first, last time.Time
	done := make(chan struct{})
	go func() {
		defer close(done)
		for response := range events {
			for range response.Events {
				last = time.Now()
				if count++; count == 1 {
					first = last
				}
			}
		}
	}()
	return func() (int64, time.Duration) {
		time.Sleep(200 * time.Millisecond) // The last events are on their way.
		stop()
		<-done
		return count, last.Sub(first)
	}
}

package etcd_test

import (
	"context"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/etcd"
)

// TestMemory: what is kept of 50,000 objects of a snapshot are hashes of their
// keys, and not of more keys than is allowed; of a running etcd, one page.
func TestMemory(t *testing.T) { // It measures the heap.
	server := startEtcd(t)
	const n = 50_000
	putMany(t, server.Client(), n)
	const want = "v1: 45000, v1beta1: 5000"
	file := save(t, server.Client())

	snapshot := openSnapshot(t, file, etcd.SnapshotOptions{})
	wantCounts(t, snapshot, widgets(), want)
	if used := heapOf(t, snapshot); used > n*64 {
		t.Errorf("a snapshot: %d bytes for each object", used/n)
	}
	snapshot.SetMaxKeys(15_000)
	wantCounts(t, snapshot, widgets(), want)
	if used := heapOf(t, snapshot); used > 1<<20 {
		t.Errorf("a snapshot, of which 15,000 keys are kept: %d bytes", used)
	}
	live := openLive(t, etcd.LiveOptions{Endpoints: []string{server.Endpoint()}})
	wantCounts(t, live, widgets(), want)
	if used := heapOf(t, live); used > 4<<20 {
		t.Errorf("a running etcd: %d bytes", used)
	}
}

// heapOf returns the most heap in use during a scan, above what was in use before.
func heapOf(t *testing.T, source etcd.Source) uint64 {
	t.Helper()
	meter := &meter{before: heap()}
	if err := source.Scan(context.WithoutCancel(t.Context()), []schema.GroupResource{widgets()}, meter); err != nil {
		t.Fatal(err)
	}
	return meter.peak
}

// meter looks at the heap now and then.
type meter struct {
	before, peak uint64
	seen         int
}

func (m *meter) Begin(schema.GroupResource, int64) {}

func (m *meter) Visit(etcd.Object) {
	if m.seen++; m.seen%5000 == 0 {
		if now := heap(); now > m.before {
			m.peak = max(m.peak, now-m.before)
		}
	}
}

// heap returns the bytes that are in use.
func heap() uint64 {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc
}

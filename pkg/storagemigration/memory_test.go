package storagemigration_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// BenchmarkMemory shows that the engine's memory does not depend on the number
// of objects (design, section 12), nor on how many fail. The objects are made up:
// what is measured is the engine, and a real server with a million would take an
// hour to fill.
func BenchmarkMemory(b *testing.B) {
	for _, test := range []struct {
		objects int64
		fail    bool
	}{{10_000, false}, {1_000_000, false}, {1_000_000, true}} {
		b.Run(fmt.Sprintf("objects=%d/fail=%t", test.objects, test.fail), func(b *testing.B) {
			var peak uint64
			for b.Loop() {
				objects := &manyObjects{total: test.objects, fail: test.fail, peak: &peak}
				result, err := storagemigration.Pass(b.Context(), objects, storagemigration.PassOptions{
					Progress: func(v1alpha1.Progress) {},
				})
				if err != nil || result.Counts.Listed != test.objects {
					b.Fatalf("%+v, %v", result.Counts, err)
				}
			}
			b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
		})
	}
}

// manyObjects is a list of made-up objects, each with 2 KB of annotations, that
// looks at the memory in use now and then.
type manyObjects struct {
	cluster.Objects // Nil: the engine uses nothing else.

	total  int64
	fail   bool
	listed atomic.Int64
	peak   *uint64
}

func (o *manyObjects) Resource() schema.GroupVersionResource { return testbed.CronTabResource("v1") }

func (o *manyObjects) ListMetadata(_ context.Context, options cluster.PageOptions) (*metav1.PartialObjectMetadataList, error) {
	if options.Continue == "" || o.listed.Load()%100_000 == 0 {
		// Only what is in use counts, not what the collector has not come to yet.
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		*o.peak = max(*o.peak, memory.HeapAlloc)
	}
	annotation := string(make([]byte, 2048))
	page := &metav1.PartialObjectMetadataList{}
	for range min(options.Limit, o.total-o.listed.Load()) {
		i := o.listed.Add(1)
		page.Items = append(page.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: name(int(i)), UID: types.UID(name(int(i))), ResourceVersion: strconv.FormatInt(i, 10),
			Annotations: map[string]string{"last-applied": annotation + strconv.FormatInt(i, 10)},
		}})
	}
	if left := o.total - o.listed.Load(); left > 0 {
		page.Continue, page.RemainingItemCount = strconv.FormatInt(left, 10), &left
	}
	return page, nil
}

func (o *manyObjects) PatchMetadata(_ context.Context, key types.NamespacedName, _ cluster.PatchRequest) (*metav1.PartialObjectMetadata, error) {
	if o.fail {
		return nil, fmt.Errorf("patching %s: it is refused", key)
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "new"}}, nil
}

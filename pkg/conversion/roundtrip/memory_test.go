package roundtrip_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion/roundtrip"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// BenchmarkMemory shows that what --all holds does not depend on the number of
// objects. They are made up: a server in this process would hide what is measured.
func BenchmarkMemory(b *testing.B) {
	for _, n := range []int64{5_000, 50_000} {
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			many := &manyObjects{total: n}
			definition := lossy()
			definition.Status.StoredVersions = []string{"v1beta1"}
			for b.Loop() {
				item, err := roundtrip.Run(b.Context(), many, roundtrip.Options{CRD: crd.CRD{CustomResourceDefinition: definition}, All: true})
				if err != nil || item.Objects != n || len(item.Pairs[1].Differences) != 2 {
					b.Fatalf("%+v, %v", item, err)
				}
			}
			b.ReportMetric(float64(many.peak)/(1<<20), "peak-MiB")
			b.ReportMetric(float64(n*int64(b.N))/b.Elapsed().Seconds(), "objects/s")
		})
	}
}

// manyObjects is a server with made-up objects that looks at the memory in use now
// and then.
type manyObjects struct {
	cluster.Interface // Nil: nothing else is used.

	total int64
	mutex sync.Mutex
	peak  uint64
}

func (m *manyObjects) Objects(resource schema.GroupVersionResource) cluster.Objects {
	return madeUp{many: m, resource: resource}
}

type madeUp struct {
	cluster.Objects // As above.

	many     *manyObjects
	resource schema.GroupVersionResource
}

func (o madeUp) ListMetadata(_ context.Context, options cluster.PageOptions) (*metav1.PartialObjectMetadataList, error) {
	at, _ := strconv.ParseInt(options.Continue, 10, 64)
	if at%5_000 == 0 {
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		o.many.mutex.Lock()
		o.many.peak = max(o.many.peak, memory.HeapAlloc)
		o.many.mutex.Unlock()
	}
	page := &metav1.PartialObjectMetadataList{}
	for ; int64(len(page.Items)) < options.Limit && at < o.many.total; at++ {
		page.Items = append(page.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: strconv.FormatInt(at, 10)}})
	}
	if at < o.many.total {
		page.Continue = strconv.FormatInt(at, 10)
	}
	return page, nil
}

func (o madeUp) Get(_ context.Context, key types.NamespacedName) (*unstructured.Unstructured, error) {
	object := testbed.NewCronTab(o.resource.Version, key.Namespace, key.Name, 1)
	object.SetResourceVersion("1")
	object.SetAnnotations(map[string]string{"last-applied": string(make([]byte, 2048))})
	if o.resource.Version == "v1" {
		spec, _ := object.Object["spec"].(map[string]any)
		without := maps.Clone(spec)
		delete(without, "image")
		object.Object["spec"] = without
	}
	return object, nil
}

func (o madeUp) Patch(ctx context.Context, key types.NamespacedName, _ cluster.PatchRequest) (*unstructured.Unstructured, error) {
	return o.Get(ctx, key)
}

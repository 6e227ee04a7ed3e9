package storagemigration_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

const (
	benchObjects = 1000
	benchSerial  = 100 // The serial migrator gets a part of them.
	benchWorkers = 16
)

// BenchmarkMigrate compares, on one server in one run, the engine with a bare
// load generator that sends the same requests, and with a migrator that does GET
// and PUT of one object after the other, as most tools do. Each rewrites objects
// of 8 KB that are persisted at the other version. Budgets (design, section 12):
//
//	engine/bare     at least 0.90
//	engine/serial   at least 6 with a round trip of 20 ms
//	B/object        at most 1000, list included
func BenchmarkMigrate(b *testing.B) {
	for _, roundTrip := range []time.Duration{0, 20 * time.Millisecond} {
		b.Run(fmt.Sprintf("rtt=%s", roundTrip), func(b *testing.B) {
			bed := start(b, testbed.InProcessOptions{})
			createBigCRD(b, bed)
			config, relay := startRelay(b, bed.Config(), roundTrip)
			to := flipper(b, bed)

			var engine, bare, serial rate
			for b.Loop() {
				// In this order, so that what grows or slows down on the way favours none.
				for _, run := range []func(){
					func() { engine.add(benchObjects, relay, func() { runEngine(b, config, to.version()) }) },
					func() { bare.add(benchObjects, relay, func() { runBare(b, config, to.version()) }) },
					func() { bare.add(benchObjects, relay, func() { runBare(b, config, to.version()) }) },
					func() { engine.add(benchObjects, relay, func() { runEngine(b, config, to.version()) }) },
					func() { serial.add(benchSerial, relay, func() { runSerial(b, config, to.version()) }) },
				} {
					to.flip()
					run()
				}
				to.finish(config)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(engine.perSecond(), "engine-objects/s")
			b.ReportMetric(bare.perSecond(), "bare-objects/s")
			b.ReportMetric(serial.perSecond(), "serial-objects/s")
			b.ReportMetric(engine.perSecond()/bare.perSecond(), "engine/bare")
			b.ReportMetric(engine.perSecond()/serial.perSecond(), "engine/serial")
			b.ReportMetric(engine.perObject(), "B/object")
			b.ReportMetric(serial.perObject(), "serial-B/object")
		})
	}
}

type rate struct {
	objects int
	took    time.Duration
	bytes   int64
}

func (r *rate) add(objects int, relay *relay, run func()) {
	begin, before := time.Now(), relay.bytes.Load()
	run()
	r.objects += objects
	r.took += time.Since(begin)
	r.bytes += relay.bytes.Load() - before
}

func (r *rate) perObject() float64 { return float64(r.bytes) / float64(r.objects) }

func (r *rate) perSecond() float64 { return float64(r.objects) / r.took.Seconds() }

func createBigCRD(b *testing.B, bed testbed.Bed) {
	b.Helper()
	crd := testbed.CronTabs("v1beta1", "v1")
	for i := range crd.Spec.Versions {
		spec := crd.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["spec"]
		spec.Properties["script"] = apiextensionsv1.JSONSchemaProps{
			Type:  "array",
			Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}},
		}
	}
	if _, err := testbed.CreateCRD(b.Context(), bed.Config(), crd); err != nil {
		b.Fatal(err)
	}
	big := func(version, namespace, name string, i int) *unstructured.Unstructured {
		object := testbed.NewCronTab(version, namespace, name, i)
		var script []any
		for line := range 200 { // Of 40 bytes each.
			script = append(script, fmt.Sprintf("step %06d/%04d: echo something and go", i, line))
		}
		if err := unstructured.SetNestedSlice(object.Object, script, "spec", "script"); err != nil {
			b.Fatal(err)
		}
		return object
	}
	options := testbed.ObjectOptions{Namespaces: []string{"a", "b", "c"}, New: big}
	if err := testbed.CreateObjects(b.Context(), bed.Config(), testbed.CronTabResource("v1"), benchObjects, options); err != nil {
		b.Fatal(err)
	}
}

// storageFlipper changes the storage version back and forth, so that each run
// has everything to rewrite.
type storageFlipper struct {
	b   *testing.B
	bed testbed.Bed
	v1  bool
}

func flipper(b *testing.B, bed testbed.Bed) *storageFlipper {
	return &storageFlipper{b: b, bed: bed}
}

func (f *storageFlipper) version() string {
	if f.v1 {
		return "v1"
	}
	return "v1beta1"
}

func (f *storageFlipper) flip() {
	f.b.StopTimer()
	defer f.b.StartTimer()
	f.v1 = !f.v1
	flip(f.b, f.bed, f.version())
	options := barrierOptions()
	options.ExpectedHash = storagemigration.StorageVersionHash(testbed.CronTabGroup, f.version(), testbed.CronTabKind)
	options.Canaries = -1
	if err := storagemigration.Barrier(f.b.Context(), newCluster(f.b, f.bed.Config()), options); err != nil {
		f.b.Fatal(err)
	}
}

// finish rewrites what the serial migrator left.
func (f *storageFlipper) finish(config *rest.Config) {
	f.b.StopTimer()
	defer f.b.StartTimer()
	if _, err := storagemigration.Pass(f.b.Context(), cronTabs(f.b, config, f.version()), storagemigration.PassOptions{}); err != nil {
		f.b.Fatal(err)
	}
}

func runEngine(b *testing.B, config *rest.Config, version string) {
	b.Helper()
	result, err := storagemigration.Pass(b.Context(), cronTabs(b, config, version), storagemigration.PassOptions{Concurrency: benchWorkers})
	if err != nil || result.Counts.Rewritten != benchObjects {
		b.Fatalf("%+v, %v", result, err)
	}
}

// runBare sends the list and the patches with nothing around them.
func runBare(b *testing.B, config *rest.Config, version string) {
	b.Helper()
	objects := cronTabs(b, config, version)
	var keys []metav1.PartialObjectMetadata
	options := cluster.PageOptions{Limit: 500}
	for {
		page, err := objects.ListMetadata(b.Context(), options)
		if err != nil {
			b.Fatal(err)
		}
		keys = append(keys, page.Items...)
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range benchWorkers {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(keys)); i = next.Add(1) - 1 {
				body, _, _ := storagemigration.NoOpPatch(&keys[i])
				key := types.NamespacedName{Namespace: keys[i].Namespace, Name: keys[i].Name}
				if _, err := objects.PatchMetadata(b.Context(), key, cluster.PatchRequest{Type: types.MergePatchType, Body: body}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	workers.Wait()
}

// runSerial does what most migrators do.
func runSerial(b *testing.B, config *rest.Config, version string) {
	b.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1 // Theirs is 5; it would be too easy.
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	objects := client.Resource(testbed.CronTabResource(version))
	list, err := objects.List(b.Context(), metav1.ListOptions{Limit: benchSerial})
	if err != nil {
		b.Fatal(err)
	}
	for i := range list.Items {
		if err := getAndPut(b.Context(), objects.Namespace(list.Items[i].GetNamespace()), list.Items[i].GetName()); err != nil {
			b.Fatal(err)
		}
	}
}

func getAndPut(ctx context.Context, objects dynamic.ResourceInterface, name string) error {
	object, err := objects.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	_, err = objects.Update(ctx, object, metav1.UpdateOptions{})
	return err
}

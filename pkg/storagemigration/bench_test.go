package storagemigration_test

import (
	"fmt"
	"slices"
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
	benchRounds = 2
	benchPerRun = 1000 // Objects of one namespace: each run has its own.
	benchSerial = 50   // The serial migrator gets a part of them.
	benchEach   = 4    // Namespaces a round: engine, bare twice, serial.
)

// benchWorkers are the numbers of requests at a time that the bare load generator
// tries: the engine has to find out by itself which one is good.
var benchWorkers = [2]int{16, 64}

// BenchmarkMigrate compares, on one server in one run, the engine, which finds out
// how many requests at a time are good, with a bare load generator that sends the
// same requests over as many connections, the better one of two that know, and with a migrator that does GET
// and PUT of one object after the other, as most tools do. Each rewrites objects
// of 8 KB that are persisted at the other version. They take turns in short runs,
// of which the median counts, because the machine does other things as well.
// Budgets (design, section 12):
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
			var engine, serial runs
			var bares [2]runs
			for i := 0; b.Loop(); i++ {
				version := []string{"v1", "v1beta1"}[i%2]
				b.StopTimer()
				flip(b, bed, version)
				options := barrierOptions()
				options.ExpectedHash = storagemigration.StorageVersionHash(testbed.CronTabGroup, version, testbed.CronTabKind)
				options.Canaries = -1
				if err := storagemigration.Barrier(b.Context(), newCluster(b, bed.Config()), options); err != nil {
					b.Fatal(err)
				}
				objects, dynamic := cronTabs(b, config, version), dynamicClient(b, rest.CopyConfig(config), version)
				if _, _, err := objects.Count(b.Context()); err != nil { // Connects.
					b.Fatal(err)
				}
				b.StartTimer()
				for round := range benchRounds {
					for turn := range 3 {
						i := (turn + round) % 3
						namespace := benchNamespace(benchEach*round + i)
						if i == 2 {
							engine.add(benchPerRun, relay, func() { runEngine(b, objects, namespace) })
							continue
						}
						bares[i].add(benchPerRun, relay, func() { runBare(b, objects, namespace, benchWorkers[i]) })
					}
					serial.add(benchSerial, relay, func() { runSerial(b, dynamic.Namespace(benchNamespace(benchEach*round+3))) })
				}
				b.StopTimer()
				if _, err := storagemigration.Pass(b.Context(), objects, storagemigration.PassOptions{}); err != nil { // What is left.
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(engine.perSecond(), "engine-objects/s")
			bare := max(bares[0].perSecond(), bares[1].perSecond())
			b.ReportMetric(bare, "bare-objects/s")
			b.ReportMetric(serial.perSecond(), "serial-objects/s")
			b.ReportMetric(engine.perSecond()/bare, "engine/bare")
			b.ReportMetric(engine.perSecond()/serial.perSecond(), "engine/serial")
			b.ReportMetric(engine.perObject(), "B/object")
			b.ReportMetric(serial.perObject(), "serial-B/object")
		})
	}
}

func benchNamespace(i int) string { return fmt.Sprintf("n%02d", i) }

// runs are the runs of one contestant.
type runs struct {
	rates   []float64
	objects int
	bytes   int64
}

func (r *runs) add(objects int, relay *relay, run func()) {
	begin, before := time.Now(), relay.bytes.Load()
	run()
	r.rates = append(r.rates, float64(objects)/time.Since(begin).Seconds())
	r.objects += objects
	r.bytes += relay.bytes.Load() - before
}

func (r *runs) perSecond() float64 {
	slices.Sort(r.rates)
	middle := len(r.rates) / 2
	return (r.rates[middle] + r.rates[len(r.rates)-1-middle]) / 2
}

func (r *runs) perObject() float64 { return float64(r.bytes) / float64(r.objects) }

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
	for i := range benchEach * benchRounds {
		objects := benchPerRun
		if i%benchEach == 3 {
			objects = benchSerial
		}
		options := testbed.ObjectOptions{New: big, Namespaces: []string{benchNamespace(i)}}
		if err := testbed.CreateObjects(b.Context(), bed.Config(), testbed.CronTabResource("v1"), objects, options); err != nil {
			b.Fatal(err)
		}
	}
}

func runEngine(b *testing.B, objects cluster.Objects, namespace string) {
	b.Helper()
	result, err := storagemigration.Pass(b.Context(), objects, storagemigration.PassOptions{Namespace: namespace})
	if err != nil || result.Counts.Rewritten != benchPerRun {
		b.Fatalf("%+v, %v", result, err)
	}
}

// runBare sends the list and the patches with nothing around them.
func runBare(b *testing.B, shared cluster.Objects, namespace string, number int) {
	b.Helper()
	objects := shared.(cluster.Pooled).Pool()
	defer objects.Close()
	page, err := objects.ListMetadata(b.Context(), cluster.PageOptions{Namespace: namespace, Limit: benchPerRun})
	if err != nil || len(page.Items) != benchPerRun {
		b.Fatal(err)
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range number {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < benchPerRun; i = next.Add(1) - 1 {
				object := &page.Items[i]
				body, _, _ := storagemigration.NoOpPatch(object)
				key := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
				if _, err := objects.PatchMetadata(b.Context(), key, cluster.PatchRequest{Type: types.MergePatchType, Body: body}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	workers.Wait()
}

// runSerial does what most migrators do, without their rate limit of 5 a second.
func runSerial(b *testing.B, objects dynamic.ResourceInterface) {
	b.Helper()
	list, err := objects.List(b.Context(), metav1.ListOptions{Limit: benchSerial})
	if err != nil {
		b.Fatal(err)
	}
	for i := range list.Items {
		object, err := objects.Get(b.Context(), list.Items[i].GetName(), metav1.GetOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := objects.Update(b.Context(), object, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

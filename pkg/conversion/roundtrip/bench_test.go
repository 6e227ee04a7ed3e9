package roundtrip_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion/roundtrip"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// lossy returns a CRD whose version v1 lacks a field and defaults another one.
func lossy() *apiextensionsv1.CustomResourceDefinition {
	c := testbed.CronTabs("v1beta1", "v1")
	spec := testbed.Version(c, "v1").Schema.OpenAPIV3Schema.Properties["spec"]
	delete(spec.Properties, "image")
	spec.Properties["mode"] = apiextensionsv1.JSONSchemaProps{Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"fast"`)}}
	old := testbed.Version(c, "v1beta1").Schema.OpenAPIV3Schema.Properties["spec"]
	old.Properties["mode"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	return c
}

// BenchmarkReplay has no server: it is what the replays cost.
func BenchmarkReplay(b *testing.B) {
	for name, definition := range map[string]*apiextensionsv1.CustomResourceDefinition{"lossless": testbed.CronTabs("v1beta1", "v1"), "lossy": lossy()} {
		b.Run(name, func(b *testing.B) {
			const n = 2000
			var objects []map[string]any
			for i := range n {
				objects = append(objects, testbed.NewCronTab("v1beta1", "a", "a", i).Object)
			}
			b.ReportAllocs()
			for b.Loop() {
				_, err := roundtrip.Run(b.Context(), nil, roundtrip.Options{CRD: crd.CRD{CustomResourceDefinition: definition}, Objects: objects})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "objects/s")
		})
	}
}

// BenchmarkLive takes every object of a server in this process.
func BenchmarkLive(b *testing.B) {
	const n = 2000
	c := live(b, n)
	for b.Loop() {
		all(b, c, n)
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "objects/s")
}

// live starts a server with n objects of a lossy CRD.
func live(tb testing.TB, n int) cluster.Interface {
	tb.Helper()
	bed, err := testbed.StartInProcess(tb.Context(), testbed.InProcessOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(bed.Stop)
	if _, err := testbed.CreateCRD(tb.Context(), bed.Config(), lossy()); err != nil {
		tb.Fatal(err)
	}
	if err := testbed.CreateObjects(tb.Context(), bed.Config(), testbed.CronTabResource("v1beta1"), n, testbed.ObjectOptions{Namespaces: []string{"a", "b"}}); err != nil {
		tb.Fatal(err)
	}
	c, err := cluster.New(bed.Config(), "")
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// all takes every object and checks what was found.
func all(tb testing.TB, c cluster.Interface, n int64) *v1alpha1.RoundTrip {
	tb.Helper()
	definition, err := c.CRDs().Get(tb.Context(), testbed.CronTabCRD)
	if err != nil {
		tb.Fatal(err)
	}
	item, err := roundtrip.Run(tb.Context(), c, roundtrip.Options{CRD: crd.CRD{CustomResourceDefinition: definition}, All: true})
	if err != nil {
		tb.Fatal(err)
	}
	if item.Objects != n || !item.Complete || len(item.Pairs) != 2 || len(item.Pairs[1].Differences) != 2 || item.Pairs[1].Differences[0].Objects != n {
		tb.Fatalf("%+v", item)
	}
	return item
}

// TestAllIsBounded compares what is held for few and for many objects: the server
// is in the same process, so it is the number of goroutines, each of which has
// one object in work, that tells.
func TestAllIsBounded(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts an API server")
	}
	const n = 1500
	c := live(t, n)
	definition, err := c.CRDs().Get(t.Context(), testbed.CronTabCRD)
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	var most, last atomic.Int64
	_, err = roundtrip.Run(t.Context(), c, roundtrip.Options{
		CRD: crd.CRD{CustomResourceDefinition: definition}, All: true, Concurrency: 4,
		Progress: func(done, _ int64) {
			most.Store(max(most.Load(), int64(runtime.NumGoroutine())))
			last.Store(done)
		},
	})
	if err != nil || last.Load() != n {
		t.Fatalf("%d objects: %v", last.Load(), err)
	}
	if more := most.Load() - int64(before); more > 400 {
		t.Errorf("%d goroutines for 4 objects at a time", more)
	}
}

//go:build linux

package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// BenchmarkValidateThousandCRDs validates folders of CRDs of 50 KB, each with
// findings, one of which --fix would correct.
//
// live-MB is the most that was in use at the end of any garbage collection, above
// what was in use before. What is kept of a CRD when it was looked at must be
// little: B/CRD is what each of the 900 CRDs more adds to it.
func BenchmarkValidateThousandCRDs(b *testing.B) {
	var few, many float64
	b.Run("folder-100", func(b *testing.B) { few = validateFolder(b, 100) })
	b.Run("folder-1000", func(b *testing.B) {
		many = validateFolder(b, 1000)
		b.ReportMetric(many/few, "live-MB/of-100")
		b.ReportMetric((many-few)*(1<<20)/900, "B/CRD")
	})
}

// BenchmarkValidateCluster validates the CRDs of a cluster, in a process of its
// own: peak-MB is the peak of its memory.
func BenchmarkValidateCluster(b *testing.B) {
	for _, crds := range []int{20, 200} {
		b.Run(fmt.Sprintf("cluster-%d", crds), func(b *testing.B) {
			kubeconfig := startBenchServer(b, crds, 2*time.Minute)
			var peak float64
			for b.Loop() {
				peak = max(peak, runBenchClient(b, "validate", kubeconfig, benchClient()).peak)
			}
			b.ReportMetric(peak, "peak-MB")
		})
	}
}

// validateFolder returns the most live memory, in MB.
func validateFolder(b *testing.B, crds int) float64 {
	b.Helper()
	dir := b.TempDir()
	for i := range crds {
		one := testbed.OperatorCRD(i)
		one.Status.Conditions, one.Status.StoredVersions = nil, nil
		one.Spec.Versions[1].Served, one.Spec.Versions[1].Deprecated = true, true
		text, err := yaml.Marshal(one)
		if err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, one.Name+".yaml"), text, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	var most float64
	for b.Loop() {
		most = max(most, peakLive(func() {
			report := &summaryReader{}
			root := NewRootCommand(genericiooptions.IOStreams{Out: report, ErrOut: io.Discard})
			root.SetArgs([]string{"validate", "-f", dir, "-o", "json"})
			if err := root.ExecuteContext(b.Context()); err != nil {
				b.Fatal(err)
			}
			if report.CRDs != crds {
				b.Fatalf("%d CRDs", report.CRDs)
			}
		}))
	}
	b.ReportMetric(most, "live-MB")
	return most
}

// summaryReader reads the summary of a report and keeps nothing else.
type summaryReader struct{ v1alpha1.FindingSummary }

func (s *summaryReader) Write(text []byte) (int, error) {
	var report struct {
		Summary *v1alpha1.FindingSummary `json:"summary"`
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return 0, err
	}
	s.FindingSummary = *report.Summary
	return len(text), nil
}

// peakLive returns the most memory that was in use at the end of a garbage
// collection while a function ran, in MB above what was in use before.
func peakLive(run func()) float64 {
	live := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	runtime.GC()
	before, most := live(), uint64(0)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			most = max(most, live())
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	run()
	close(done)
	<-stopped
	return float64(max(most, before)-before) / (1 << 20)
}

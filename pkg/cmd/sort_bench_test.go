//go:build linux

package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

const (
	// benchCRDs is the number of CRDs.
	benchCRDs = 1000
	// benchHelper is the environment variable that makes this test binary a
	// client: its value is what the client does.
	benchHelper = "CRDVER_BENCH_CLIENT"
)

// BenchmarkThousandCRDs compares sort and status, on a cluster with 1,000 CRDs
// of 50 KB, with what "kubectl get crd -o json" does: list them as JSON in pages
// of 500, keep all, print one document. Each client is a process of its own, so
// that its peak memory is its own; all of them are this test binary. The real
// kubectl takes part, too, if there is one.
//
// A metric that ends in /json is the ratio to the JSON list: below 1, the client
// needs less.
func BenchmarkThousandCRDs(b *testing.B) {
	kubeconfig := startBenchServer(b, benchCRDs, 5*time.Minute)
	b.Run("sort", func(b *testing.B) { compareClients(b, "sort", kubeconfig) })
	b.Run("status", func(b *testing.B) {
		// The server makes ready what it needs for a resource when it is first
		// asked for; on a real cluster, the controllers did that long ago.
		runBenchClient(b, "status", kubeconfig, benchClient())
		waitIdle(b, 30*time.Second)
		compareClients(b, "status", kubeconfig)
	})
}

// benchClient is the command that runs TestBenchmarkClient.
func benchClient() []string { return []string{os.Args[0], "-test.run=^TestBenchmarkClient$"} }

// compareClients runs a command of ours and those it is compared with in turn.
func compareClients(b *testing.B, name, kubeconfig string) {
	clients := map[string][]string{name: benchClient(), "json": benchClient()}
	if kubectl, err := exec.LookPath("kubectl"); err == nil {
		clients["kubectl"] = []string{kubectl, "get", "crd", "-o", "json"}
	}
	spent := map[string]spending{}
	runs := 0
	for b.Loop() {
		runs++
		for client, command := range clients {
			one := runBenchClient(b, client, kubeconfig, command)
			total := spent[client]
			total.wall += one.wall
			total.cpu += one.cpu
			total.peak = max(total.peak, one.peak)
			spent[client] = total
		}
	}
	b.ReportMetric(0, "ns/op") // The sum of all clients says nothing.
	reference := spent["json"]
	for client, total := range spent {
		b.ReportMetric(total.wall.Seconds()/float64(runs), client+"-s")
		b.ReportMetric(total.cpu.Seconds()/float64(runs), client+"-cpu-s")
		b.ReportMetric(total.peak, client+"-MB")
		if client != "json" {
			b.ReportMetric(total.wall.Seconds()/reference.wall.Seconds(), client+"-s/json")
			b.ReportMetric(total.peak/reference.peak, client+"-MB/json")
		}
	}
}

// spending is what a client took: time, CPU time, and its peak memory in MB.
type spending struct {
	wall, cpu time.Duration
	peak      float64
}

func runBenchClient(b *testing.B, name, kubeconfig string, words []string) spending {
	b.Helper()
	command := exec.CommandContext(b.Context(), words[0], words[1:]...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+b.TempDir(), benchHelper+"="+name)
	var stderr strings.Builder
	command.Stdout, command.Stderr = io.Discard, &stderr
	start := time.Now()
	if err := command.Start(); err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	done := make(chan struct{})
	peak := make(chan float64)
	go func() { peak <- watchMemory(command.Process.Pid, done) }()
	err := command.Wait()
	wall := time.Since(start)
	close(done)
	if err != nil {
		b.Fatalf("%s: %v\n%s", name, err, stderr.String())
	}
	return spending{wall: wall, cpu: command.ProcessState.UserTime() + command.ProcessState.SystemTime(), peak: <-peak}
}

// watchMemory returns the peak memory of a process, in MB, as the kernel counts
// it. What the kernel says of a process that has ended is of no use: it is at
// least the memory of the process that started it, which is a whole API server.
func watchMemory(pid int, done <-chan struct{}) float64 {
	var peak float64
	for {
		select {
		case <-done:
			return peak
		case <-time.After(2 * time.Millisecond):
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // It has ended.
		}
		for line := range strings.Lines(string(status)) {
			var kilobytes float64
			if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kilobytes); n == 1 {
				peak = max(peak, kilobytes/1024)
			}
		}
	}
}

// TestBenchmarkClient is one client of the benchmark.
func TestBenchmarkClient(t *testing.T) {
	what := os.Getenv(benchHelper)
	if what == "" {
		t.Skip("only for BenchmarkThousandCRDs")
	}
	if what == "json" {
		if err := listAsKubectl(t.Context(), os.Stdout); err != nil {
			t.Fatal(err)
		}
		return
	}
	root := NewRootCommand(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	root.SetArgs([]string{what})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// listAsKubectl does what "kubectl get crd -o json" does.
func listAsKubectl(ctx context.Context, w io.Writer) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	all := &unstructured.UnstructuredList{Object: map[string]any{"kind": "List", "apiVersion": "v1"}}
	options := metav1.ListOptions{Limit: 500}
	for {
		page, err := crds.List(ctx, options)
		if err != nil {
			return err
		}
		all.Items = append(all.Items, page.Items...)
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return (&printers.JSONPrinter{}).PrintObj(all, w)
		}
	}
}

// startBenchServer starts a server and puts the CRDs into its etcd, established:
// to create them takes four writes each, and a second or two on a busy machine.
func startBenchServer(b *testing.B, crds int, idle time.Duration) (kubeconfig string) {
	b.Helper()
	bed, err := testbed.StartInProcess(b.Context(), testbed.InProcessOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(bed.Stop)
	if err := testbed.StoreCRDs(b.Context(), bed.Etcd(), crds, testbed.OperatorCRD); err != nil {
		b.Fatal(err)
	}
	kubeconfig = filepath.Join(b.TempDir(), "config")
	if err := bed.WriteKubeconfig(kubeconfig); err != nil {
		b.Fatal(err)
	}
	waitIdle(b, idle)
	return kubeconfig
}

// waitIdle waits until the server of this process has little to do any more, or
// until a time is over: it builds the OpenAPI documents of all CRDs, and does not
// come to rest altogether when it watches a thousand resources.
func waitIdle(b *testing.B, limit time.Duration) {
	b.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		before := cpuTime(b)
		time.Sleep(2 * time.Second)
		if cpuTime(b)-before < 100*time.Millisecond {
			return
		}
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var taken syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &taken); err != nil {
		b.Fatal(err)
	}
	return time.Duration(taken.Utime.Nano() + taken.Stime.Nano())
}

// TestBenchCRDSize keeps the benchmark honest.
func TestBenchCRDSize(t *testing.T) {
	text, err := json.Marshal(testbed.OperatorCRD(0))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) < 48_000 || len(text) > 56_000 {
		t.Errorf("a CRD has %d bytes", len(text))
	}
}

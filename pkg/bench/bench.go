// Package bench holds the ways of rewriting objects that crdver-bench compares:
// the engine of this tool, those of other tools, named by the shape of their
// requests and not by their names, and a bare load generator.
//
// Each run is a process of its own (cmd/crdver-bench-client), so that its CPU
// time and its peak memory are its own: see [Main].
package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Way is a way of rewriting objects.
type Way string

// The ways.
const (
	// WayEngine is this tool's engine: metadata pages that flow into workers.
	WayEngine Way = "engine"
	// WayListPut lists all objects in one answer and PUTs each, one after the
	// other.
	WayListPut Way = "list-put"
	// WayGetPut lists all objects in one answer, and GETs and PUTs each, one after
	// the other.
	WayGetPut Way = "get-put"
	// WayEmptyPatch lists pages of whole objects and sends each the merge patch {},
	// one after the other.
	WayEmptyPatch Way = "empty-patch"
	// WayVersionPatch lists pages of metadata and sends each object a merge patch
	// with its identity and resourceVersion, one after the other.
	WayVersionPatch Way = "version-patch"
	// WayBare sends the engine's requests and does nothing else. It lists the
	// objects before the clock starts.
	WayBare Way = "bare"
	// WayListCRDs is no rewrite: it does what "kubectl get crd -o json" does.
	WayListCRDs Way = "list-crds"
)

// Request says what a run does.
type Request struct {
	Way        Way                         `json:"way"`
	Kubeconfig string                      `json:"kubeconfig"`
	Resource   schema.GroupVersionResource `json:"resource"`
	// Namespace narrows the run; empty means all of them.
	Namespace string `json:"namespace,omitempty"`
	// Limit stops a serial way after so many objects; 0 means none.
	Limit int `json:"limit,omitempty"`
	// QPS limits a serial way as client-go does; 0 means no limit.
	QPS float32 `json:"qps,omitempty"`
	// Workers and Connections are those of the bare load generator.
	Workers     int `json:"workers,omitempty"`
	Connections int `json:"connections,omitempty"`
}

// Outcome is what came of a run.
type Outcome struct {
	// Objects is how many objects were gone over, Rewritten how many of them have
	// a new resourceVersion.
	Objects   int64 `json:"objects"`
	Rewritten int64 `json:"rewritten"`
	// Seconds is the time from the first request of the list to the last answer.
	// The connection is made before.
	Seconds float64 `json:"seconds"`
	// CPUSeconds is the CPU time that the process took in that time.
	CPUSeconds float64 `json:"cpuSeconds"`
	// PeakBytes is the most resident memory that the process ever had.
	PeakBytes int64 `json:"peakBytes"`
}

// Main is the program of a run: its argument is a Request, what it writes an
// Outcome, both in JSON.
func Main(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument, a request in JSON, and not %d", len(args))
	}
	var request Request
	if err := json.Unmarshal([]byte(args[0]), &request); err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	if request.Way == WayListCRDs {
		return listCRDs(ctx, request.Kubeconfig, stdout)
	}
	outcome, err := Run(ctx, request)
	if err != nil {
		return fmt.Errorf("%s: %w", request.Way, err)
	}
	if err := json.NewEncoder(stdout).Encode(outcome); err != nil {
		return fmt.Errorf("writing the outcome: %w", err)
	}
	return nil
}

// way does its work in two parts; the clock runs during the second one.
type way interface {
	prepare(context.Context) error
	run(context.Context) (objects, rewritten int64, err error)
}

// Run does what a request says, in this process.
func Run(ctx context.Context, request Request) (Outcome, error) {
	config, err := clientcmd.BuildConfigFromFlags("", request.Kubeconfig)
	if err != nil {
		return Outcome{}, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.UserAgent = "crdver-bench/" + string(request.Way)
	config.QPS = -1
	w, err := newWay(config, request)
	if err != nil {
		return Outcome{}, err
	}
	if err := w.prepare(ctx); err != nil {
		return Outcome{}, fmt.Errorf("getting ready: %w", err)
	}
	cpu, begin := cpuTime(), time.Now()
	var outcome Outcome
	outcome.Objects, outcome.Rewritten, err = w.run(ctx)
	outcome.Seconds = time.Since(begin).Seconds()
	outcome.CPUSeconds = (cpuTime() - cpu).Seconds()
	outcome.PeakBytes = PeakMemory("self")
	return outcome, err
}

func newWay(config *rest.Config, request Request) (way, error) {
	switch request.Way {
	case WayEngine:
		return newEngine(config, request)
	case WayBare:
		return newBare(config, request)
	case WayListPut, WayGetPut, WayEmptyPatch, WayVersionPatch:
		return newSerial(config, request)
	default:
		return nil, fmt.Errorf("there is no way %q", request.Way)
	}
}

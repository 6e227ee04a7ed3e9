package executor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// What is looked at is what can be known without knowing the clients: whether
// workloads stay ready, whether containers are restarted, and whether warnings name
// the API group. None of it is proof: it only happened at the same time.

// sampleEvery is how often workloads are looked at during a brownout.
const sampleEvery = 10 * time.Second

// maxEffects bounds what a report lists.
const maxEffects = 100

// workloadKinds have replicas that are ready or not.
func workloadKinds() []schema.GroupVersionResource {
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	return []schema.GroupVersionResource{
		apps.WithResource("deployments"), apps.WithResource("statefulsets"), apps.WithResource("daemonsets"),
	}
}

// ready is how many replicas of a workload are ready.
type ready struct{ before, least, want int64 }

// effects are what was seen around a brownout.
type effects struct {
	run *run
	// workloads are by resource, and namespace/name.
	workloads map[schema.GroupVersionResource]map[string]*ready
	restarts  map[string]int64
	// references are the children that name the version, before; nil if they were not
	// searched, or not with success.
	references map[schema.GroupResource]usage.ReferencingResource
	// unserved are the times that the version was not served.
	unserved []usage.Span
	started  time.Time
	sampled  time.Time
	watched  []string
	unread   []string
}

// watchEffects looks at how it is before.
func (r *run) watchEffects(ctx context.Context) *effects {
	e := &effects{run: r, workloads: map[schema.GroupVersionResource]map[string]*ready{}, restarts: map[string]int64{}, started: time.Now()}
	for _, kind := range workloadKinds() {
		seen := map[string]*ready{}
		err := e.each(ctx, kind, func(o *unstructured.Unstructured) {
			is, want := readiness(o)
			seen[nameOf(o)] = &ready{before: is, least: is, want: want}
		})
		if e.note(kind, err) {
			e.workloads[kind] = seen
		}
	}
	err := e.each(ctx, pods(), func(o *unstructured.Unstructured) { e.restarts[nameOf(o)] = restartsOf(o) })
	if !e.note(pods(), err) {
		e.restarts = nil
	}
	return e
}

func pods() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}

func (e *effects) each(ctx context.Context, kind schema.GroupVersionResource, visit func(*unstructured.Unstructured)) error {
	return cluster.EachObject(ctx, e.run.Cluster.Objects(kind), cluster.PageOptions{Limit: 500}, func(o *unstructured.Unstructured) error {
		visit(o)
		return nil
	})
}

// note takes down whether something could be looked at.
func (e *effects) note(kind schema.GroupVersionResource, err error) bool {
	name := kind.GroupResource().String()
	switch {
	case err == nil:
		e.watched = append(e.watched, name)
		return true
	case apierrors.IsNotFound(err):
		e.unread = append(e.unread, name+": the server has none")
	case apierrors.IsForbidden(err):
		e.unread = append(e.unread, name+": you may not list them")
	default:
		e.unread = append(e.unread, name+": "+cluster.Explain(err).Message)
	}
	return false
}

func nameOf(o *unstructured.Unstructured) string {
	return objectName(o.GetNamespace(), o.GetName())
}

// readiness returns how many replicas are ready, and how many there should be.
func readiness(o *unstructured.Unstructured) (is, want int64) {
	number := func(path ...string) int64 {
		n, _, _ := unstructured.NestedInt64(o.Object, path...)
		return n
	}
	if o.GetKind() == "DaemonSet" {
		return number("status", "numberReady"), number("status", "desiredNumberScheduled")
	}
	return number("status", "readyReplicas"), number("spec", "replicas")
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func restartsOf(o *unstructured.Unstructured) int64 {
	containers, _, _ := unstructured.NestedSlice(o.Object, "status", "containerStatuses")
	var total int64
	for _, container := range containers {
		if fields, ok := container.(map[string]any); ok {
			n, _, _ := unstructured.NestedInt64(fields, "restartCount")
			total += n
		}
	}
	return total
}

// sample looks at the workloads now and then, and shortly before the end.
func (e *effects) sample(ctx context.Context, left time.Duration) {
	if e == nil || len(e.workloads) == 0 || time.Since(e.sampled) < min(sampleEvery, max(left/2, time.Second)) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, left) // The version is served again on time.
	defer cancel()
	for kind, seen := range e.workloads {
		_ = e.each(ctx, kind, func(o *unstructured.Unstructured) { // The next look may go better.
			if known := seen[nameOf(o)]; known != nil {
				is, _ := readiness(o)
				known.least = min(known.least, is)
			}
		})
	}
	e.sampled = time.Now()
}

// finish puts what was seen into the report.
func (e *effects) finish(ctx context.Context, report *v1alpha1.BrownoutReport) {
	affected := func(kind schema.GroupResource, name, format string, args ...any) {
		if len(report.Affected) < maxEffects {
			report.Affected = append(report.Affected, v1alpha1.BrownoutEffect{
				Resource: kind.String(), Name: name, What: fmt.Sprintf(format, args...),
			})
		}
	}
	for _, kind := range workloadKinds() {
		for _, name := range slices.Sorted(maps.Keys(e.workloads[kind])) {
			if w := e.workloads[kind][name]; w.least < w.before {
				affected(kind.GroupResource(), name, "%d of %d ready before, %d at the least since", w.before, w.want, w.least)
			}
		}
	}
	if e.restarts != nil {
		_ = e.each(ctx, pods(), func(o *unstructured.Unstructured) { // What is not seen is not told.
			before, known := e.restarts[nameOf(o)]
			if now := restartsOf(o); known && now > before {
				affected(pods().GroupResource(), nameOf(o), "containers restarted %s", times(now-before))
			}
		})
	}
	e.events(ctx, affected)
	e.referenced(ctx, affected)
	report.Watched, report.NotWatched = append(report.Watched, e.watched...), append(report.NotWatched, e.unread...)
}

// events looks for warnings that name the API group, or the kind with "no matches".
func (e *effects) events(ctx context.Context, affected func(schema.GroupResource, string, string, ...any)) {
	kind := schema.GroupVersionResource{Version: "v1", Resource: "events"}
	c := e.run.expected
	err := e.each(ctx, kind, func(o *unstructured.Unstructured) {
		field := func(path ...string) string {
			text, _, _ := unstructured.NestedString(o.Object, path...)
			return text
		}
		message := field("message")
		names := strings.Contains(message, c.Group) || strings.Contains(message, fmt.Sprintf("no matches for kind %q", c.Kind))
		if field("type") != "Warning" || !names {
			return
		}
		for _, at := range []string{field("lastTimestamp"), field("eventTime"), field("series", "lastObservedTime")} {
			// Events are in seconds.
			if seen, err := time.Parse(time.RFC3339, at); err == nil && !seen.Before(e.started.Truncate(time.Second)) {
				about := objectName(field("involvedObject", "namespace"), field("involvedObject", "name"))
				affected(kind.GroupResource(), about, "%s %s: %s", field("involvedObject", "kind"), field("reason"), message)
				return
			}
		}
	})
	e.note(kind, err)
}

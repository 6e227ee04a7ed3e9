package usage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// blindConnections is how many connections are made through the address of the
// kubeconfig where nothing tells how many servers are behind it.
const blindConnections = 3

// MetricsOptions say how long to look.
type MetricsOptions struct {
	// Window is how old a request may be to count as use.
	Window time.Duration
	// Watch takes the difference over this time; 0 only reads what the servers
	// have counted since they started.
	Watch time.Duration
	// Interval is how often to read while watching; 0 means a twentieth of Watch,
	// at least a second and at most half a minute.
	Interval time.Duration
	// Progress is told how a watch goes; it may be nil.
	Progress func(WatchProgress)
}

// WatchProgress is how a watch goes.
type WatchProgress struct {
	Elapsed, Of time.Duration
	Servers     int
	// Requests is how many there were so far at the versions that were asked for.
	Requests int64
}

// Metrics is what the metrics of the API servers tell. They say what was done and
// how often, and not by whom.
type Metrics struct {
	client    cluster.Interface
	options   MetricsOptions
	targets   []Target
	resources map[schema.GroupResource]bool

	known cluster.APIServers
	// tracks are what was seen of each server.
	tracks map[string]*track
	// failures are addresses that were not reached, and why.
	failures map[string]error
	// failed is why not even one server could be read.
	failed error
	begin  time.Time
	end    time.Time
	// round is when the last round of reading began.
	round time.Time
	// reached is how many servers the first round has found.
	reached int
	// Interrupted says that the watch ended early.
	Interrupted bool
}

var _ Collector = &Metrics{}

// track is what was seen of one server while watching.
type track struct {
	first, last *serverMetrics
	// whole says that the server started while watching, so that all it counts is
	// from that time.
	whole bool
	// lastSeen is when a counter was last found to be higher.
	lastSeen map[series]time.Time
}

// ReadMetrics reads the metrics of every API server that can be reached, and with
// a Watch again and again until its end. When ctx ends during a watch, the watch
// ends early and what was seen until then is the result.
//
// Nothing is requested meanwhile but /metrics, so that no request of this tool is
// in the difference. What was counted before includes requests of this tool.
func ReadMetrics(ctx context.Context, client cluster.Interface, options MetricsOptions, targets []Target) (*Metrics, error) {
	m := &Metrics{
		client: client, options: options, targets: targets, resources: map[schema.GroupResource]bool{},
		tracks: map[string]*track{}, failures: map[string]error{}, begin: time.Now(),
	}
	for _, target := range targets {
		m.resources[target.Resource("").GroupResource()] = true
	}
	var err error
	if m.known, err = client.APIServers(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		m.failed = err
		return m, nil
	}
	if err := m.scrape(ctx); err != nil {
		return nil, err
	}
	m.reached = len(m.tracks)
	m.end = time.Now()
	if options.Watch > 0 && len(m.tracks) > 0 {
		m.watch(ctx)
	}
	return m, nil
}

// complete tells whether the first round has found every server that is known of.
func (m *Metrics) complete() bool {
	return m.reached > 0 && m.reached >= m.known.Count() && m.known.Count() > 0
}

// scrape reads each server once. A server is recognised by when it started, to a
// hundredth of a second; a load balancer does not tell which one answers.
func (m *Metrics) scrape(ctx context.Context) error {
	m.round = time.Now()
	found := map[string]bool{}
	if err := m.visit(ctx, "", found); err != nil || forbidden(m.failed) || len(m.known.Addresses) == 1 && m.known.Count() == 1 {
		return err
	}
	for _, address := range m.known.Addresses {
		if m.failures[address] != nil && m.reached > 0 {
			continue // It cost seconds to find that out.
		}
		if err := m.visit(ctx, address, found); err != nil {
			return err
		}
	}
	// Those that cannot be addressed may be met through the load balancer. Leases
	// alone say too little: servers on one host share theirs.
	for range max(blindConnections-1, 3*(m.known.Count()-len(found))) {
		if len(m.known.Addresses) > 0 && len(found) >= m.known.Count() {
			break
		}
		if err := m.visit(ctx, "", found); err != nil {
			return err
		}
	}
	return nil
}

// visit reads one server. Only the end of ctx is an error.
func (m *Metrics) visit(ctx context.Context, address string, found map[string]bool) error {
	metrics, err := m.read(ctx, address)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && address == "":
		m.failed = err
	case err != nil:
		m.failures[address] = err
	default:
		m.failed = nil
		delete(m.failures, address)
		found[metrics.id] = true
		m.add(metrics)
	}
	return nil
}

func (m *Metrics) read(ctx context.Context, address string) (*serverMetrics, error) {
	var metrics *serverMetrics
	err := m.client.Metrics(ctx, address, func(body io.Reader) (err error) {
		metrics, err = parseMetrics(ctx, body, m.resources)
		return err
	})
	if err != nil {
		return nil, err
	}
	metrics.at = time.Now()
	return metrics, nil
}

// add keeps what a server says.
func (m *Metrics) add(metrics *serverMetrics) {
	known := m.tracks[metrics.id]
	if known == nil {
		// One that turns up later has been started meanwhile, if all servers were
		// known before, or if it says so.
		whole := m.complete() || m.reached > 0 && metrics.started.After(m.begin)
		m.tracks[metrics.id] = &track{first: metrics, last: metrics, whole: whole, lastSeen: map[series]time.Time{}}
		if whole {
			for s := range metrics.requests {
				m.tracks[metrics.id].lastSeen[s] = metrics.at
			}
		}
		return
	}
	for s, count := range metrics.requests {
		if count > known.last.requests[s] {
			known.lastSeen[s] = metrics.at
		}
	}
	known.last = metrics
}

// gained returns how much a counter has grown while watching.
func (t *track) gained(s series) int64 {
	if t.whole {
		return int64(t.last.requests[s])
	}
	return int64(t.last.requests[s] - t.first.requests[s])
}

// watch reads until the time is over or ctx ends.
func (m *Metrics) watch(ctx context.Context) {
	interval := m.options.Interval
	if interval <= 0 {
		interval = min(max(m.options.Watch/20, time.Second), 30*time.Second)
	}
	timer := time.NewTimer(m.options.Watch)
	defer timer.Stop()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			m.last(ctx)
			m.Interrupted = true
			return
		case <-timer.C:
			m.last(ctx)
			return
		case <-ticker.C:
			// A read that fails is tried again with the next tick.
			_ = m.scrape(ctx)
			m.end = time.Now()
			m.tell()
		}
	}
}

// lastTimeout bounds the last reading, which an interrupt does not end.
const lastTimeout = 5 * time.Second

// last reads once more, so that the difference goes to the end of the watch.
func (m *Metrics) last(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	if m.scrape(ctx) == nil && m.failed == nil {
		m.end = time.Now()
	}
	m.tell()
}

func (m *Metrics) tell() {
	if m.options.Progress == nil {
		return
	}
	progress := WatchProgress{Elapsed: m.end.Sub(m.begin), Of: m.options.Watch, Servers: len(m.tracks)}
	for _, target := range m.targets {
		for _, version := range target.Versions {
			progress.Requests += m.requests(target.Resource(version))
		}
	}
	m.options.Progress(progress)
}

func (m *Metrics) requests(resource schema.GroupVersionResource) int64 {
	var total int64
	for _, one := range m.tracks {
		for s := range one.last.requests {
			if s.resource == resource {
				total += one.gained(s)
			}
		}
	}
	return total
}

func forbidden(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// Source implements [Collector].
func (m *Metrics) Source() v1alpha1.UsageSource { return v1alpha1.UsageMetrics }

// Collect implements [Collector]. It only looks up what ReadMetrics found.
func (m *Metrics) Collect(_ context.Context, target Target) ([]v1alpha1.UsageEvidence, []v1alpha1.Unlooked, error) {
	var evidence []v1alpha1.UsageEvidence
	for _, version := range target.Versions {
		evidence = append(evidence, m.evidence(target.Resource(version))...)
	}
	return evidence, m.unlooked(), nil
}

// metricsRule is how to get the right to read metrics.
const metricsRule = "reading /metrics takes a ClusterRole with the rule {nonResourceURLs: [/metrics], verbs: [get]}"

// unlooked says what was not read.
func (m *Metrics) unlooked() []v1alpha1.Unlooked {
	tell := func(optional bool, format string, args ...any) []v1alpha1.Unlooked {
		return []v1alpha1.Unlooked{{Source: v1alpha1.UsageMetrics, Why: fmt.Sprintf(format, args...), Optional: optional}}
	}
	notSupported := apierrors.IsNotFound(m.failed) || errors.Is(m.failed, errNoMetrics)
	var list []v1alpha1.Unlooked
	switch known := m.known.Count(); {
	case m.reached == 0 && forbidden(m.failed):
		return tell(false, "you may not read them: %s", metricsRule)
	case m.reached == 0 && notSupported:
		return tell(false, "the server has no metrics of an API server")
	case m.reached == 0:
		return tell(false, "%s", cluster.Explain(m.failed).Message)
	case known == 0:
		list = tell(true, "nothing tells how many API servers there are; over %d connections %d answered", blindConnections, m.reached)
	case m.reached < known:
		list = tell(false, "%d of %d API servers could be reached, through the address of the kubeconfig and by their own", m.reached, known)
	}
	for _, server := range m.tracks {
		if m.options.Watch > 0 && server.last.at.Before(m.round) {
			list = append(list, tell(false, "the API server that started at %s did not answer any more after %s: what it counted since is not known",
				server.last.started.UTC().Format(time.RFC3339), server.last.at.UTC().Format(time.RFC3339))...)
		}
	}
	why := "only what was counted since the API servers started was read, and not what happens now"
	recent := false
	for _, server := range m.tracks {
		if m.end.Sub(server.first.started) < m.options.Window {
			recent = true
			why = fmt.Sprintf("the API server counts since it started, %s: what was requested before, nobody knows", server.first.started.UTC().Format(time.RFC3339))
		}
	}
	if recent || m.options.Watch <= 0 {
		list = append(list, v1alpha1.Unlooked{Source: v1alpha1.UsageMetrics, Why: why, Command: "--watch 10m", Optional: !recent})
	}
	return list
}

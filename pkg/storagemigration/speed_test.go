package storagemigration_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// load watches how many patches a proxy has in hand.
type load struct {
	mu       sync.Mutex
	inFlight int
	most     int
	patches  int
}

func (l *load) enter() (patch int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight++
	l.patches++
	l.most = max(l.most, l.inFlight)
	return l.patches
}

func (l *load) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
}

// take returns the most since it was last asked.
func (l *load) take() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := l.most
	l.most = 0
	return most
}

func (l *load) now() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight
}

// slowly makes a proxy take its time for each patch, and count them.
func (l *load) slowly(delay time.Duration, decide func(patch int) fault) func(*http.Request) fault {
	return func(r *http.Request) fault {
		if r.Method != http.MethodPatch {
			return pass
		}
		patch := l.enter()
		defer l.leave()
		time.Sleep(delay)
		if decide == nil {
			return pass
		}
		return decide(patch)
	}
}

// What a pass asks of a server, and how it takes what the server answers. Nothing
// needs to be rewritten for that: the objects are shared.
func TestPassMindsTheServer(t *testing.T) {
	t.Parallel()
	const n = 300
	bed := startWithCronTabs(t, n, testbed.InProcessOptions{})
	for what, broken := range map[string]fault{"429": throttle, "503": unavailable, "cut": cutBefore} {
		t.Run("less after "+what, func(t *testing.T) { sendsLess(t, bed, n, broken) })
	}
	t.Run("retry after", func(t *testing.T) { retryAfterIsForAll(t, bed) })
	t.Run("streams", func(t *testing.T) { streamsAreNoLimit(t, bed) })
	t.Run("bandwidth", func(t *testing.T) { bandwidthIsLimited(t, bed, n) })
	t.Run("deadline", func(t *testing.T) { deadlineEndsIt(t, bed, n) })
}

// Whatever the way in which a server says that it has too much to do, the pass
// sends it less and less, down to one request at a time, and goes on as soon as it
// is well again.
func sendsLess(t *testing.T, bed server, n int64, broken fault) {
	t.Parallel()
	var (
		l     load
		mu    sync.Mutex
		storm time.Time
		alone int
	)
	p := startProxy(t, l.slowly(10*time.Millisecond, func(patch int) fault {
		mu.Lock()
		defer mu.Unlock()
		if patch < 100 || alone >= 5 {
			return pass
		}
		if storm.IsZero() {
			storm = time.Now()
		}
		if alone++; l.now() > 1 {
			alone = 0
		}
		if time.Since(storm) > 60*time.Second {
			alone = 100 // It never comes to that.
		}
		return broken
	}), bed)
	result, err := storagemigration.Pass(t.Context(), cronTabs(t, p.Config(), "v1"), storagemigration.PassOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantSum(t, result)
	if !result.Complete || result.Counts.Listed != n || result.Counts.Failed != 0 || result.Counts.Retries < 5 {
		t.Errorf("result: %+v", result)
	}
	if alone != 5 {
		t.Error("there was never only one request at a time")
	}
}

// A 429 with Retry-After holds the whole pass back, not only the request that
// got it: priority and fairness speaks for all requests of a user.
func retryAfterIsForAll(t *testing.T, bed server) {
	t.Parallel()
	var (
		mu      sync.Mutex
		refused time.Time
		early   int
		after   int
	)
	l := load{}
	p := startProxy(t, func(r *http.Request) fault {
		if r.Method != http.MethodPatch {
			return pass
		}
		mu.Lock()
		switch {
		case refused.IsZero():
		case time.Since(refused) < 900*time.Millisecond && time.Since(refused) > 300*time.Millisecond:
			early++ // What was under way has arrived long since.
		default:
			after++
		}
		mu.Unlock()
		what := l.slowly(10*time.Millisecond, func(patch int) fault {
			if patch == 80 {
				return throttle
			}
			return pass
		})(r)
		if what == throttle {
			mu.Lock()
			refused = time.Now()
			mu.Unlock()
		}
		return what
	}, bed)
	result, err := storagemigration.Pass(t.Context(), cronTabs(t, p.Config(), "v1"), storagemigration.PassOptions{})
	if err != nil || !result.Complete {
		t.Fatalf("%+v, %v", result, err)
	}
	if early > 0 || after == 0 {
		t.Errorf("%d patches came before the time that the server asked for, %d after it", early, after)
	}
}

// The number of streams that a server allows in a connection is no limit.
func streamsAreNoLimit(t *testing.T, bed server) {
	t.Parallel()
	const streams, workers = 4, 64
	var l load
	p := startProxyOfStreams(t, streams, l.slowly(200*time.Millisecond, nil), bed)
	result, err := storagemigration.Pass(t.Context(), cronTabs(t, p.Config(), "v1"), storagemigration.PassOptions{Concurrency: workers})
	if err != nil || !result.Complete || result.Counts.Failed != 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	most := l.take()
	t.Logf("at most %d at a time over %d connections of %d streams", most, p.Connections(), streams)
	if most <= workers/16*streams { // As many connections as the pass opens for so many.
		t.Errorf("at most %d patches at a time", most)
	}
}

// What the wire carries stays below the limit at any time, the list included.
func bandwidthIsLimited(t *testing.T, bed server, n int64) {
	t.Parallel()
	const limit = 100_000
	config, relay := startRelay(t, bed.Config(), 0)
	objects := cronTabs(t, config, "v1")

	// A page may be paid for only afterwards, and so may what those in flight cost
	// more than it seemed; TLS needs a few kilobytes a connection.
	const slack = limit/4 + 50_000
	var worst atomic.Int64
	done := make(chan struct{})
	var watch sync.WaitGroup
	begin := time.Now()
	watch.Go(func() {
		for {
			// The bytes are read first: what comes later is none of this time's.
			carried := relay.bytes.Load()
			worst.Store(max(worst.Load(), carried-int64(time.Since(begin).Seconds()*limit)))
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	result, err := storagemigration.Pass(t.Context(), objects, storagemigration.PassOptions{MaxBandwidth: limit})
	took := time.Since(begin)
	close(done)
	watch.Wait()
	if err != nil || !result.Complete || result.Counts.Listed != n {
		t.Fatalf("%+v, %v", result, err)
	}
	carried := relay.bytes.Load()
	t.Logf("%d bytes in %s, at worst %d above the limit", carried, took, worst.Load())
	if carried < 2*limit {
		t.Fatalf("only %d bytes: the test shows nothing", carried)
	}
	if worst.Load() > slack {
		t.Errorf("at some time %d bytes more than the limit allows were carried", worst.Load())
	}
}

// A limit of the rate knows beforehand that the deadline of the command comes
// first. No object may be passed over for that in a pass that seems to be well.
func deadlineEndsIt(t *testing.T, bed server, n int64) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	result, err := storagemigration.Pass(ctx, cronTabs(t, bed.Config(), "v1"), storagemigration.PassOptions{QPS: 2})
	if !errors.Is(err, context.DeadlineExceeded) || result.Complete {
		t.Errorf("%+v, %v", result, err)
	}
	wantSum(t, result)
	if result.Counts.Listed == n {
		t.Error("all objects were reached: the test shows nothing")
	}
}

// Where the first namespaces go wrong, nothing else is touched.
func TestNamespacesFirst(t *testing.T) {
	t.Parallel()
	const n = 60
	bed := startWithCronTabs(t, n, testbed.InProcessOptions{})
	flip(t, bed, "v1")
	options := barrierOptions()
	options.Canaries = -1 // They would be in the first namespace of the list.
	if err := storagemigration.Barrier(t.Context(), newCluster(t, bed.Config()), options); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var order []string
	refuse := true
	p := startProxy(t, func(r *http.Request) fault {
		if r.Method != http.MethodPatch {
			return pass
		}
		mu.Lock()
		defer mu.Unlock()
		order = append(order, strings.Split(r.URL.Path, "/")[5])
		if refuse && strings.HasSuffix(r.URL.Path, "/b/crontabs/"+name(31)) {
			return unavailable
		}
		return pass
	}, bed)
	objects := cronTabs(t, p.Config(), "v1")
	first := storagemigration.PassOptions{NamespacesFirst: []string{"none", "b"}, RetryFor: time.Second, PageSize: 25}
	result, err := storagemigration.Pass(t.Context(), objects, first)
	if err != nil || !result.HeldBack || result.Complete || result.Counts.Failed != 1 || result.Counts.Listed != n/2 {
		t.Fatalf("%+v, %v", result, err)
	}
	wantStored(t, bed, map[string]int{"v1": n/2 - 1, "v1beta1": n/2 + 1})

	mu.Lock()
	order, refuse = nil, false
	mu.Unlock()
	result, err = storagemigration.Pass(t.Context(), objects, first)
	if err != nil || result.HeldBack || !result.Complete || result.Counts.Listed != n {
		t.Fatalf("%+v, %v", result, err)
	}
	for i, namespace := range order {
		if want := map[bool]string{true: "b", false: "a"}[i < n/2]; namespace != want || len(order) != n {
			t.Fatalf("patch %d of %d was one of an object in %s", i, len(order), namespace)
		}
	}
	wantStored(t, bed, map[string]int{"v1": n})
}

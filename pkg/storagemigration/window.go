package storagemigration

import "time"

const (
	// firstWindow is where an adaptive pass starts.
	firstWindow = 8
	// modestWindow is what every API server takes: a sixth of the 200 writes at a time
	// that one allows by default (--max-mutating-requests-inflight), before priority
	// and fairness divides them. Below it, requests that wait for each other are no
	// sign of distress: they do because etcd syncs the writes of many at once, which
	// is what makes more of them cheaper.
	modestWindow = 32
	// sluggish is how long a write takes on average where even a modest window is too
	// much: the project's objective for the slowest in a hundred is a second.
	sluggish = 500 * time.Millisecond
	// windowStep is what a round adds to the window while more requests in flight
	// bring more objects a second. At a round trip of 20 ms it takes half a second
	// to come from the first window to the default ceiling.
	windowStep = 8
	// roundTime is the least time of a round: a shorter one measures only noise.
	roundTime = 20 * time.Millisecond
	// roundsKept are about the rounds at one size that a new one is added to.
	roundsKept = 16
	// gain is by how much a round must be faster than one with a smaller window
	// to count as faster, and rise by how much its requests must be slower to
	// count as a queue at the server.
	gain = 1.05
	rise = 2.0
	// quietRounds without a fault double the step again, and stillRounds at the
	// same window have it look whether a smaller one would do.
	quietRounds = 16
	stillRounds = 48
)

// window decides how many requests a pass may have in flight: additive increase
// while that makes the pass faster, multiplicative decrease when the server says
// that it has too much to do, or shows it.
//
// It knows no clock and no request: it is told what happened and when, and is not
// safe for use by several goroutines.
type window struct {
	limit, most int
	fixed       bool
	step        int

	// now is the round that goes on, here are all since the window has this size,
	// and smaller those of the sizes before, since it was last halved.
	now     span
	here    span
	smaller []span
	// quickest is the mean latency of the best round here.
	quickest time.Duration
	// slow counts the rounds in a row that showed a queue, quiet those without a
	// fault, and still those at the same window that brought nothing.
	slow, quiet, still int
	// reduced is when the window was last made smaller: what was sent before tells
	// nothing of the smaller one.
	reduced time.Time
}

// span is what happened in a time: a round, in which about as many requests were
// answered as may be in flight, or some of them.
type span struct {
	began time.Time
	took  time.Duration
	limit int
	// answered requests took latency in total, and at most busy were in flight.
	answered int
	latency  time.Duration
	busy     int
}

func (s span) rate() float64 { return float64(s.answered) / s.took.Seconds() }

func (s span) mean() time.Duration { return s.latency / time.Duration(max(1, s.answered)) }

// newWindow returns a window that stays at fixed, or, if that is 0, one that
// goes up to most.
func newWindow(fixed, most int) *window {
	w := &window{limit: fixed, most: max(most, 1), fixed: fixed > 0, step: windowStep}
	if !w.fixed {
		w.limit = min(firstWindow, w.most)
	}
	return w
}

// sent notes that a request was sent, and how many are in flight by that.
func (w *window) sent(now time.Time, inFlight int) {
	if w.now.began.IsZero() {
		w.now = span{began: now, limit: w.limit}
	}
	w.now.busy = max(w.now.busy, inFlight)
}

// done notes that a request that was sent at that time was answered, with
// something that says nothing against the window.
func (w *window) done(sent, now time.Time) {
	if w.fixed || w.now.began.IsZero() {
		return
	}
	w.now.answered++
	w.now.latency += now.Sub(sent)
	w.now.took = now.Sub(w.now.began)
	if w.now.answered < w.now.limit || w.now.took < roundTime {
		return
	}
	w.judge(w.now, now)
	w.now = span{began: now, limit: w.limit}
}

// fault notes that a request that was sent at that time met a server that has
// too much to do, or none at all. Those in flight together count once.
func (w *window) fault(sent, now time.Time) {
	if w.fixed || sent.Before(w.reduced) {
		return
	}
	w.step, w.quiet = max(1, w.step/2), 0
	w.halve(now, 1)
}

// ease halves the window without a fault, but not below the least.
func (w *window) ease(now time.Time, least int) { w.halve(now, min(least, w.limit)) }

func (w *window) halve(now time.Time, least int) {
	w.limit, w.reduced = max(least, w.limit/2), now
	w.now = span{began: now, limit: w.limit}
	// What the rounds were like before this is no measure any more: a server that
	// became slow for another reason would have the window halved down to 1.
	w.smaller = nil
	w.settle()
}

// settle begins the time at another size.
func (w *window) settle() {
	w.here, w.quickest, w.slow, w.still = span{limit: w.limit}, 0, 0, 0
}

// grow makes the window larger, up to what is modest as fast as it can.
func (w *window) grow(modest int) {
	w.smaller = append(w.smaller, w.here)
	step := w.step
	if w.limit < modest && step == windowStep { // No fault lately.
		step = max(step, min(w.limit, modest-w.limit))
	}
	w.limit = min(w.most, w.limit+step)
	w.settle()
}

// judge decides after a round.
func (w *window) judge(last span, now time.Time) {
	if w.quiet++; w.quiet%quietRounds == 0 {
		w.step = min(windowStep, w.step*2)
	}
	if last.busy < last.limit {
		return // Something else holds the pass back: the window does not.
	}
	// How small a window that is not faster than others may become. Below the first
	// one, the time of a request tells of the disk and of chance, and a server that
	// has too much to do with so few says so.
	least := modestWindow
	if last.mean() > sluggish {
		least = firstWindow
	}
	if w.slow++; last.limit <= least || !w.queued(last) {
		w.slow = 0
	}
	w.add(last)
	faster := w.limit < least || w.faster()
	switch {
	case w.slow > 1: // Once may be a hiccup.
		w.ease(now, least)
	case w.slow == 1:
	case faster && w.limit < w.most:
		w.grow(least)
	case !faster:
		if w.still++; w.still > stillRounds {
			// The server has no more to give. Perhaps it gives as much with less.
			w.ease(now, least)
		}
	}
}

// add adds a round to those at this size. The older ones fade.
func (w *window) add(last span) {
	if w.here.answered > roundsKept*last.answered {
		w.here.answered, w.here.took, w.here.latency = w.here.answered/2, w.here.took/2, w.here.latency/2
	}
	w.here.answered += last.answered
	w.here.took += last.took
	w.here.latency += last.latency
	if mean := last.mean(); w.quickest == 0 || mean < w.quickest {
		w.quickest = mean
	}
}

// queued tells whether a round shows that requests wait for each other at the
// server: they take much longer than they did with a window that was as large or
// smaller, and nothing is gained by it.
func (w *window) queued(last span) bool {
	quickest, fastest := w.quickest, 0.0
	if w.here.answered > 0 {
		fastest = w.here.rate()
	}
	for _, s := range w.smaller {
		fastest = max(fastest, s.rate())
		if quickest == 0 || s.mean() < quickest {
			quickest = s.mean()
		}
	}
	return quickest > 0 && float64(last.mean()) > rise*float64(quickest) && last.rate() < gain*fastest
}

// faster tells whether more objects are done with this window than with those
// that were clearly smaller; without any, it counts as faster.
func (w *window) faster() bool {
	fastest := 0.0
	for _, s := range w.smaller {
		if s.limit <= w.limit*3/4 {
			fastest = max(fastest, s.rate())
		}
	}
	return w.here.rate() > gain*fastest
}

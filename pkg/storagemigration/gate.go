package storagemigration

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// maxRetrying are the requests that may wait for their next attempt before no
// other object is begun, unless the window is larger.
const maxRetrying = 16

// maxPause bounds how long the whole pass pauses because one answer said so.
const maxPause = 30 * time.Second

// gate lets as many requests go at a time as the window allows, first come first
// served, and none while the server asked to be left alone.
type gate struct {
	mu       sync.Mutex
	window   *window
	inFlight int
	// again and first are those that wait for their turn, chan struct{} that are
	// closed when it has come.
	again, first list.List
	// retrying are the requests that wait for their next attempt. They hold no
	// place: one object in trouble must not be in the way of the others. But where
	// many of them do, nothing else is begun: a server that is not there would
	// otherwise be asked for each object that there is a worker for.
	retrying int
	// until is the time before which nothing is sent.
	until time.Time
}

// ticket is the place of one request.
type ticket struct {
	gate *gate
	sent time.Time
}

func newGate(window *window) *gate { return &gate{window: window} }

// enter waits until a request may be sent. Urgent ones come before all others:
// those that are sent again, or with a window of 1 each attempt would wait for all
// others and nothing would ever be given up, and the one that finds out whether
// the conversion webhook answers, which all others wait for.
func (g *gate) enter(ctx context.Context, urgent bool) (*ticket, error) {
	for {
		if err := g.pause(ctx); err != nil {
			return nil, err
		}
		g.mu.Lock()
		queue := &g.first
		if urgent {
			queue = &g.again
		}
		turn := make(chan struct{})
		place := queue.PushBack(turn)
		g.admit()
		g.mu.Unlock()
		if err := g.await(ctx, turn, queue, place); err != nil {
			return nil, err
		}
		g.mu.Lock()
		now := time.Now()
		if !now.Before(g.until) {
			g.window.sent(now, g.inFlight)
			g.mu.Unlock()
			return &ticket{gate: g, sent: now}, nil
		}
		g.release() // The pause began while it waited for its turn.
		g.mu.Unlock()
	}
}

// await waits for a turn, which holds a place in flight once it has come.
func (g *gate) await(ctx context.Context, turn chan struct{}, queue *list.List, place *list.Element) error {
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-turn:
		g.release()
	default:
		queue.Remove(place)
	}
	return &interruptedError{cause: ended(ctx)}
}

// pause waits until the time before which nothing is sent.
func (g *gate) pause(ctx context.Context) error {
	g.mu.Lock()
	wait := time.Until(g.until)
	g.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	return sleep(ctx, wait)
}

// release gives a place back. The lock is held.
func (g *gate) release() {
	g.inFlight--
	g.admit()
}

// admit lets those go whose turn it is. The lock is held.
func (g *gate) admit() {
	for g.inFlight < g.window.limit {
		queue := &g.again
		if queue.Len() == 0 && g.retrying < max(maxRetrying, g.window.limit) {
			queue = &g.first
		}
		if queue.Len() == 0 {
			return
		}
		turn, _ := queue.Remove(queue.Front()).(chan struct{})
		g.inFlight++
		close(turn)
	}
}

// retry counts a request that waits for its next attempt, or no longer does.
func (g *gate) retry(by int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.retrying += by
	g.admit()
}

// verdict is what the answer to a request says about the server.
type verdict int

const (
	// verdictNone says nothing: a list page, of which each takes its own time, or
	// an object in trouble of its own.
	verdictNone verdict = iota
	// verdictFine says that the server did its work, whatever it was.
	verdictFine
	// verdictStrained says that the server has too much to do, or is not there.
	verdictStrained
)

// leave notes what came of a request, and pauses all for as long as the server
// asked for.
func (t *ticket) leave(v verdict, retryAfter time.Duration) {
	g := t.gate
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	switch v {
	case verdictFine:
		g.window.done(t.sent, now)
	case verdictStrained:
		g.window.fault(t.sent, now)
		if until := now.Add(min(retryAfter, maxPause)); until.After(g.until) {
			g.until = until
		}
	case verdictNone:
	}
	g.release()
}

// state returns the number of requests in flight, and how many may be.
func (g *gate) state() (inFlight, limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inFlight, g.window.limit
}

package storagemigration

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// maxPause bounds how long the whole pass pauses because one answer said so.
const maxPause = 30 * time.Second

// gate lets as many requests go at a time as the window allows, first come first
// served, and none while the server asked to be left alone. A request that waits
// for its next attempt holds no place.
type gate struct {
	mu       sync.Mutex
	window   *window
	inFlight int
	waiting  list.List // Of chan struct{}, closed when its turn has come.
	// until is the time before which nothing is sent.
	until time.Time
}

// ticket is the place of one request.
type ticket struct {
	gate *gate
	sent time.Time
}

func newGate(window *window) *gate { return &gate{window: window} }

// enter waits until a request may be sent. Those that are sent again come before
// those that were not sent yet: otherwise, with a window of 1, each attempt would
// wait for all others, and nothing would ever be given up.
func (g *gate) enter(ctx context.Context, again bool) (*ticket, error) {
	for {
		if err := g.pause(ctx); err != nil {
			return nil, err
		}
		g.mu.Lock()
		if g.inFlight < g.window.limit && g.waiting.Len() == 0 {
			g.inFlight++
		} else {
			turn := make(chan struct{})
			var place *list.Element
			if again {
				place = g.waiting.PushFront(turn)
			} else {
				place = g.waiting.PushBack(turn)
			}
			g.mu.Unlock()
			if err := g.await(ctx, turn, place); err != nil {
				return nil, err
			}
			g.mu.Lock()
		}
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
func (g *gate) await(ctx context.Context, turn chan struct{}, place *list.Element) error {
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
		g.waiting.Remove(place)
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

// release gives a place back and lets those go whose turn it is. The lock is held.
func (g *gate) release() {
	g.inFlight--
	for g.inFlight < g.window.limit && g.waiting.Len() > 0 {
		turn, _ := g.waiting.Remove(g.waiting.Front()).(chan struct{})
		g.inFlight++
		close(turn)
	}
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

package storagemigration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

const (
	// patience outlasts the rotation of a certificate, which takes up to 90
	// seconds (case 49), and a rolling update.
	patience = 3 * time.Minute
	// poisonAnswers is how often the webhook may answer for others while it seems
	// to be down for an object: then it is the object that brings it down.
	poisonAnswers = 3
	// firstProbe is the least time between two attempts while the webhook is down,
	// and every turn-th of them is for an object that did not fail yet.
	firstProbe = 500 * time.Millisecond
	turn       = 3
)

// ConverterDownError says that the conversion webhook did not answer for as long
// as allowed. What is left can be done by running again.
type ConverterDownError struct {
	// For is how long it was waited for.
	For  time.Duration
	last error
}

// Error says how long it was waited for, and what the server said last.
func (e *ConverterDownError) Error() string {
	return fmt.Sprintf("the conversion webhook did not answer for %s: %s", e.For.Round(time.Second), cluster.Explain(e.last).Message)
}

// Unwrap returns the last error.
func (e *ConverterDownError) Unwrap() error { return e.last }

// breaker holds the requests of a pass back while the conversion webhook does not
// answer, but for one at a time, which tries. A dead webhook is not asked once for
// each object.
type breaker struct {
	lock  sync.Mutex
	since time.Time
	// failed is the number of requests that found the webhook down and were not
	// answered since. One of them tries: another object may need no conversion, so
	// that its success says nothing.
	failed int
	trying bool
	// others lets an object try that did not fail: the one that did may be the
	// only one that the webhook does not answer for.
	others bool
	// answers counts how often the webhook turned out to be up again.
	answers int
	changed chan struct{}
}

func newBreaker() *breaker { return &breaker{changed: make(chan struct{})} }

// enter waits until a request may be sent. failed says that it found the webhook
// down before; try, that it is the one that finds out whether it answers again.
func (b *breaker) enter(ctx context.Context, failed bool) (try bool, err error) {
	for {
		b.lock.Lock()
		if b.since.IsZero() {
			b.lock.Unlock()
			return false, nil
		}
		if !b.trying && (failed || b.failed == 0 || b.others) {
			b.trying = true
			b.lock.Unlock()
			return true, nil
		}
		changed := b.changed
		b.lock.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false, &interruptedError{cause: ended(ctx)}
		}
	}
}

// open tells whether the webhook is held to be down.
func (b *breaker) open() bool {
	b.lock.Lock()
	defer b.lock.Unlock()
	return !b.since.IsZero()
}

// answered notes that the webhook answered. It returns how long it was down if it
// was.
func (b *breaker) answered() time.Duration {
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.since.IsZero() {
		return 0
	}
	down := time.Since(b.since)
	b.since, b.trying, b.others = time.Time{}, false, false
	b.answers++
	b.signal()
	return down
}

// outage is what one request knows of the webhook being down.
type outage struct {
	attempts int
	since    time.Time
	// answers are those of the breaker when it began.
	answers int
}

// down notes that it did not answer a request, first or again, and returns how
// often it answered others since, and whether it being down is news.
func (b *breaker) down(o *outage) (answers int, news bool) {
	b.lock.Lock()
	defer b.lock.Unlock()
	if o.attempts++; o.attempts == 1 {
		b.failed++
		o.since, o.answers = time.Now(), b.answers
	}
	if news = b.since.IsZero(); news {
		b.since = time.Now()
	}
	return b.answers - o.answers, news
}

// leave notes that a request that found it down comes to an end.
func (b *breaker) leave() {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.failed--
	b.signal()
}

// next lets somebody try again, others too if it is their turn.
func (b *breaker) next(others bool) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.trying, b.others = false, others
	b.signal()
}

// signal wakes those who wait. The lock is held.
func (b *breaker) signal() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// converterDown deals with a request that found the webhook down: it waits until
// it makes sense to send it again, or ends the pass. It returns the error that is
// the object's own outcome.
func (p *pass) converterDown(run context.Context, try bool, o *outage, err error) error {
	answers, news := p.breaker.down(o)
	if news {
		p.notice("the conversion webhook does not answer: paused, trying again for up to %s (%s)",
			p.options.WebhookPatience, cluster.Explain(err).Message)
	}
	if answers >= poisonAnswers {
		if try {
			p.breaker.next(true)
		}
		return err
	}
	if down := time.Since(o.since); down > p.options.WebhookPatience {
		gaveUp := &ConverterDownError{For: down, last: err}
		p.stop(gaveUp)
		return &interruptedError{cause: gaveUp}
	}
	p.countRetry()
	if !try {
		return nil // It waits for the one that tries.
	}
	defer p.breaker.next(o.attempts%turn == 0)
	return sleep(run, backoff(o.attempts, firstProbe))
}

func (p *pass) notice(format string, args ...any) {
	if p.options.Notice != nil {
		p.options.Notice(fmt.Sprintf(format, args...))
	}
}

// isConverterDown tells whether a pass ended because of the conversion webhook.
func isConverterDown(err error) bool {
	down := new(ConverterDownError)
	return errors.As(err, &down)
}

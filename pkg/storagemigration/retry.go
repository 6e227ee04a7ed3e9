package storagemigration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 10 * time.Second
	// attemptTimeout ends a request that nothing comes of: the server itself ends
	// a write after 34 s and everything else after a minute.
	attemptTimeout = 65 * time.Second
)

// gaveUpError is a request that was sent again for as long as allowed.
type gaveUpError struct {
	began time.Time
	last  error
}

func (e *gaveUpError) Error() string {
	return fmt.Sprintf("gave up after %s: %v", time.Since(e.began).Round(time.Second), e.last)
}

func (e *gaveUpError) Unwrap() error { return e.last }

// interruptedError is a request that was not sent, or whose answer was not
// awaited, because the pass ends.
type interruptedError struct{ cause error }

func (e *interruptedError) Error() string { return e.cause.Error() }
func (e *interruptedError) Unwrap() error { return e.cause }

func isInterrupted(err error) bool {
	interrupted := new(interruptedError)
	return errors.As(err, &interrupted)
}

// send sends a request until there is an answer that another attempt would not
// change. run ends the waiting and the attempts; requests ends the request that
// is in flight. Every request here may be sent twice: a LIST changes nothing, and
// a patch carries the resourceVersion, so that the second of two that both
// arrived is refused with 409.
func (p *pass) send(run, requests context.Context, call func(context.Context) error) error {
	began := time.Now()
	var down outage
	defer func() {
		if down.attempts > 0 {
			p.breaker.leave()
		}
	}()
	for attempt := 0; ; attempt++ {
		try, err := p.breaker.enter(run, down.attempts > 0)
		if err != nil {
			return err
		}
		if p.limiter != nil {
			if err := p.limiter.Wait(run); err != nil {
				return &interruptedError{cause: err}
			}
		}
		if run.Err() != nil {
			return &interruptedError{cause: ended(run)}
		}
		err = p.attempt(requests, call)
		if requests.Err() != nil {
			if try {
				p.breaker.next(true)
			}
			return &interruptedError{cause: requests.Err()}
		}
		if cluster.ConverterDown(err) {
			if err := p.converterDown(run, try, &down, err); err != nil {
				return err
			}
			continue
		}
		if try {
			p.notice("the conversion webhook answers again after %s: going on", p.breaker.answered().Round(time.Second))
		}
		if !again(err) {
			p.answered.Store(time.Now().UnixNano())
			return err
		}
		wait := backoff(attempt, cluster.RetryAfter(err))
		if time.Since(began)+wait > p.options.RetryFor {
			return &gaveUpError{began: began, last: err}
		}
		p.countRetry()
		if err := sleep(run, wait); err != nil {
			return err
		}
	}
}

// ended returns why a context ended. Whatever cause somebody gave it, errors.Is
// finds context.Canceled or context.DeadlineExceeded, unless the pass itself gave
// up.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	gaveUp := new(gaveUpError)
	if errors.Is(cause, ctx.Err()) || errors.As(cause, &gaveUp) || isConverterDown(cause) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

func (p *pass) attempt(requests context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(requests, attemptTimeout)
	defer cancel()
	p.inFlight.Add(1)
	defer p.inFlight.Add(-1)
	return call(ctx)
}

// again tells whether to send the request again. A deadline is the one of the
// attempt, or the user's --request-timeout.
func again(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || cluster.Transient(err)
}

// backoff returns how long to wait before the next attempt: exponential, with
// jitter, and at least what the server asked for.
func backoff(attempt int, atLeast time.Duration) time.Duration {
	wait := min(firstBackoff<<min(attempt, 10), maxBackoff)
	wait = wait/2 + rand.N(wait/2) //nolint:gosec // Jitter needs no secret.
	if wait < atLeast {
		// Not all at the same instant: they were refused because they were many.
		wait = atLeast + rand.N(atLeast/4) //nolint:gosec // As above.
	}
	return wait
}

func sleep(run context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-run.Done():
		return &interruptedError{cause: ended(run)}
	}
}

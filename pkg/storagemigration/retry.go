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

// weight says whether the time that a request takes tells something about the
// server: that of a patch does, that of a page depends on what is in it.
type weight bool

const (
	weighed   weight = true
	unweighed weight = false
)

// send sends a request until there is an answer that another attempt would not
// change. run ends the waiting and the attempts; requests ends the request that
// is in flight. Every request here may be sent twice: a LIST changes nothing, and
// a patch carries the resourceVersion, so that the second of two that both
// arrived is refused with 409.
func (p *pass) send(run, requests context.Context, weight weight, call func(context.Context) error) error {
	var (
		began, tried time.Time
		down         outage
		retrying     bool
	)
	defer func() {
		if down.attempts > 0 {
			p.breaker.leave()
		}
	}()
	for attempt := 0; ; attempt++ {
		ticket, try, err := p.admit(run, attempt > 0, down.attempts > 0)
		if retrying {
			p.gate.retry(-1)
			retrying = false
		}
		if err != nil {
			return err
		}
		if attempt == 0 {
			began = ticket.sent // The time before, it waited for others.
		}
		err = p.attempt(requests, call)
		p.dismiss(ticket, p.verdict(err, weight, attempt, tried), cluster.RetryAfter(err))
		tried = ticket.sent
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
		// One attempt that took longer than all may take tells that this process was
		// stopped meanwhile, and nothing of the server.
		if attempt > 0 && time.Since(began)+wait > p.options.RetryFor {
			return &gaveUpError{began: began, last: err}
		}
		p.countRetry()
		retrying = true
		p.gate.retry(1)
		if err := sleep(run, wait); err != nil {
			return err // Nothing is begun any more.
		}
	}
}

// admit waits until a request may be sent: the conversion webhook answers, and
// the rate, the bandwidth and the window have room for it.
func (p *pass) admit(run context.Context, again, failed bool) (t *ticket, try bool, err error) {
	for {
		if try, err = p.breaker.enter(run, failed); err != nil {
			return nil, false, err
		}
		if t, err = p.room(run, again || try); err != nil {
			return nil, false, err
		}
		if try || !p.breaker.open() {
			break
		}
		// The webhook went away while this request waited: it is not asked once
		// for each of them.
		p.dismiss(t, verdictNone, 0)
	}
	if run.Err() != nil {
		p.dismiss(t, verdictNone, 0)
		return nil, false, &interruptedError{cause: ended(run)}
	}
	return t, try, nil
}

// room waits until the rate, the bandwidth and the window have room.
func (p *pass) room(run context.Context, urgent bool) (*ticket, error) {
	if p.limiter != nil {
		if p.limiter.Wait(run) != nil {
			// The limiter knows in advance that the deadline of the context will come
			// first, and does not wait for it. An object must not be passed over for
			// that while the pass still seems to be well.
			<-run.Done()
			return nil, &interruptedError{cause: ended(run)}
		}
	}
	if p.bandwidth != nil {
		if err := p.bandwidth.enter(run); err != nil {
			return nil, err
		}
	}
	t, err := p.gate.enter(run, urgent)
	if err != nil && p.bandwidth != nil {
		p.bandwidth.leave()
	}
	return t, err
}

// dismiss gives the room of a request back.
func (p *pass) dismiss(t *ticket, v verdict, retryAfter time.Duration) {
	t.leave(v, retryAfter)
	if p.bandwidth != nil {
		p.bandwidth.leave()
	}
}

// verdict tells what an answer says about the server.
func (p *pass) verdict(err error, weight weight, attempt int, tried time.Time) verdict {
	switch {
	case errors.Is(err, context.Canceled):
		return verdictNone
	case strained(err):
		// Others were answered since this request was last tried, more than once:
		// it is the object that is in trouble, and the others need not suffer.
		if attempt > 1 && p.answered.Load() > tried.UnixNano() {
			return verdictNone
		}
		return verdictStrained
	case weight == weighed:
		return verdictFine
	}
	return verdictNone
}

// strained tells whether an error may come from too many requests at a time: the
// server, or a webhook that it calls for each of them, did not answer or asked to
// wait.
func strained(err error) bool {
	switch {
	case err == nil, cluster.Initializing(err): // Fact 14: that one says nothing of the load.
		return false
	case again(err):
		return true
	}
	switch cluster.Explain(err).Reason {
	case cluster.ReasonUnavailable, cluster.ReasonConversionFailed:
		return true
	default:
		return false
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

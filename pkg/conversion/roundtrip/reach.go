package roundtrip

import (
	"context"
	"fmt"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/conversion/review"
)

const (
	// reachTries is how often a webhook is called that does not answer. After
	// that it is left alone, whatever number of objects is left.
	reachTries = 3
	reachDelay = 200 * time.Millisecond
)

// unreachableError says that a webhook gave no answer at all.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string { return e.err.Error() }

func (e *unreachableError) Unwrap() error { return e.err }

// reachable tells calls without an answer from those that the webhook answered.
type reachable struct{ review.Caller }

// Post implements [review.Caller].
func (r reachable) Post(ctx context.Context, body []byte) (review.Response, error) {
	delay := reachDelay
	for try := 1; ; try++ {
		response, err := r.Caller.Post(ctx, body)
		if err == nil {
			return response, nil
		}
		if ctx.Err() != nil {
			return review.Response{}, fmt.Errorf("calling the webhook: %w", context.Cause(ctx))
		}
		if try == reachTries {
			return review.Response{}, &unreachableError{err}
		}
		select {
		case <-ctx.Done():
			return review.Response{}, fmt.Errorf("calling the webhook: %w", context.Cause(ctx))
		case <-time.After(delay):
		}
		delay *= 2
	}
}

// ask notes a question that stays open.
func (r *run) ask(question string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.open[question] = true
}

// askReplay notes that a round trip could not be replayed.
func (r *run) askReplay(t trip) {
	why := ""
	if text := r.unreachable.Load(); text != nil {
		why = *text
	}
	r.ask(fmt.Sprintf("what %s to %s and back loses: the conversion webhook could not be called to replay it (%s)", t.from.name, t.to.name, why))
}

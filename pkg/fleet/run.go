// Package fleet asks many clusters the same thing: it finds them in kubeconfigs,
// and runs something on each, several at a time, so that one that is down neither
// hides the others nor keeps them waiting.
package fleet

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// grace is how long work may go on after its time is over, to come to its end.
// Credential plugins take no context, so that it may not end at all.
const grace = 2 * time.Second

// Options say how to run something on many clusters.
type Options struct {
	// Parallel is how many are asked at a time; at least 1.
	Parallel int
	// Limit is how long the one at index i may take.
	Limit func(i int) time.Duration
}

// Outcome is what came of one cluster.
type Outcome[T any] struct {
	Value T
	// Err says why there is no value.
	Err error
	// Took is how long it took, without waiting for its turn.
	Took time.Duration
}

// TimeoutError says that a cluster did not answer within its time.
type TimeoutError struct{ Limit time.Duration }

// Error says how long that was.
func (e *TimeoutError) Error() string { return fmt.Sprintf("no answer within %s", e.Limit) }

// Run calls work for each of the indexes below n, several at a time, and returns
// what came of each, in order. Work that does not end when its time is over, or ctx
// is done, is left alone: what it returns later is dropped.
func Run[T any](ctx context.Context, n int, options Options, work func(ctx context.Context, i int) (T, error)) []Outcome[T] {
	outcomes := make([]Outcome[T], n)
	slots := make(chan struct{}, max(options.Parallel, 1))
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
			}
			if err := ctx.Err(); err != nil {
				outcomes[i].Err = fmt.Errorf("not asked: %w", err)
				return
			}
			start := time.Now()
			outcomes[i] = limited(ctx, options.Limit(i), func(ctx context.Context) (T, error) { return work(ctx, i) })
			outcomes[i].Took = time.Since(start)
		})
	}
	all.Wait()
	return outcomes
}

// limited runs work for no longer than a limit.
func limited[T any](parent context.Context, limit time.Duration, work func(context.Context) (T, error)) Outcome[T] {
	ctx, cancel := context.WithTimeout(parent, limit)
	defer cancel()
	done := make(chan Outcome[T], 1)
	go func() {
		value, err := work(ctx)
		done <- Outcome[T]{Value: value, Err: err}
	}()
	outcome := Outcome[T]{Err: ctx.Err()}
	select {
	case outcome = <-done:
	case <-ctx.Done():
		// It is the first to know, and may be about to say so, or to succeed.
		select {
		case outcome = <-done:
		case <-time.After(grace):
			outcome.Err = ctx.Err()
		}
	}
	if outcome.Err != nil && ctx.Err() != nil && parent.Err() == nil {
		// What the library says of its deadline names neither the limit nor the flag.
		outcome.Err = &TimeoutError{Limit: limit}
	}
	return outcome
}

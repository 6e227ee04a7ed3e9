package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

const (
	// retries is bounded: a 429 "storage is (re)initializing" may come for ever
	// (fact 14).
	retries       = 5
	firstDelay    = 100 * time.Millisecond
	maxDelay      = 5 * time.Second
	maxRetryAfter = 10 * time.Second
)

// Retry calls request again, a few times, while it fails for a transient reason,
// after the time that the server asked for, or longer and longer ones.
func Retry(ctx context.Context, request func() error) error {
	return retry(ctx, request, func(_ error, try int) bool { return try < retries })
}

// retryAnswered is [Retry] for what every command begins with: where nobody listens,
// it says so at once.
func retryAnswered(ctx context.Context, request func() error) error {
	return retry(ctx, request, func(err error, try int) bool {
		var network *net.OpError
		return try < retries && !(errors.As(err, &network) && network.Op == "dial")
	})
}

// RetryFor is [Retry] for as long as patience lasts: for a request in the midst of a
// work that is better waited with than broken off, because an API server that is
// restarted is back after a while.
func RetryFor(ctx context.Context, patience time.Duration, request func() error) error {
	until := time.Now().Add(patience)
	return retry(ctx, request, func(error, int) bool { return time.Now().Before(until) })
}

func retry(ctx context.Context, request func() error, more func(err error, try int) bool) error {
	for try := 0; ; try++ {
		err := request()
		if err == nil || !Transient(err) || !more(err, try) {
			return err
		}
		if err := Pause(ctx, err, try); err != nil {
			return err
		}
	}
}

// Pause waits before a request that failed is tried again, for the first time if try
// is 0: for as long as the server asked for, or longer and longer. Its error is that of
// a context that ended, with the one that it was given.
func Pause(ctx context.Context, err error, try int) error {
	delay := min(firstDelay<<min(try, 16), maxDelay)
	// Several workers that were refused together must not come back together.
	wait := delay + rand.N(delay)
	if asked := RetryAfter(err); asked > 0 {
		wait = min(asked, maxRetryAfter) + rand.N(delay)
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w, after: %w", context.Cause(ctx), err)
	case <-time.After(wait):
		return nil
	}
}

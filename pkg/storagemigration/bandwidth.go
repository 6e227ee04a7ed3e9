package storagemigration

import (
	"context"
	"sync"
	"time"
)

// bandwidth bounds the bytes a second that the connections of a pass carry, both
// ways, with everything that is around the objects. How long an answer is turns
// out when it comes: a request is sent only while there is something left after
// what those in flight will cost by experience, and what an answer costs more is
// paid by those after it.
type bandwidth struct {
	rate float64
	// carried returns the bytes so far.
	carried func() int64

	mu       sync.Mutex
	left     float64
	updated  time.Time
	seen     int64
	inFlight int
	// answers and theirs are the requests that were answered and their bytes.
	answers int64
	first   int64
}

// firstGuess is what a request costs before there is any experience: a no-op
// patch and its answer, which is metadata.
const firstGuess = 700

// burst is the part of a second whose bytes may go at once.
const burst = 0.25

func newBandwidth(rate int64, carried func() int64) *bandwidth {
	start := carried()
	return &bandwidth{
		rate: float64(rate), carried: carried, left: float64(rate) * burst,
		updated: time.Now(), seen: start, first: start,
	}
}

// enter waits until another request fits in.
func (b *bandwidth) enter(ctx context.Context) error {
	for {
		b.mu.Lock()
		b.update(time.Now())
		missing := float64(b.inFlight)*b.each() - b.left
		if missing < 0 || b.inFlight == 0 && b.left > 0 {
			b.inFlight++
			b.mu.Unlock()
			return nil
		}
		b.mu.Unlock()
		wait := time.Duration(missing / b.rate * float64(time.Second))
		if err := sleep(ctx, min(max(wait, time.Millisecond), time.Second)); err != nil {
			return err
		}
	}
}

// leave notes that a request was answered, or ended otherwise.
func (b *bandwidth) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
	b.answers++
	b.update(time.Now())
}

// update adds what time brought and takes off what was carried. The lock is held.
func (b *bandwidth) update(now time.Time) {
	carried := b.carried()
	b.left += now.Sub(b.updated).Seconds()*b.rate - float64(carried-b.seen)
	b.left = min(b.left, b.rate*burst)
	b.updated, b.seen = now, carried
}

// each is what a request costs by experience. The lock is held.
func (b *bandwidth) each() float64 {
	if b.answers == 0 {
		return firstGuess
	}
	return max(1, float64(b.seen-b.first)/float64(b.answers))
}

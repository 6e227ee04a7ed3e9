package storagemigration

import (
	"math"
	"time"
)

// meterMemory is how far back the rate looks: long enough to be steady, short
// enough to show that the server became slower.
const meterMemory = 5 * time.Second

// meter turns counts into a smoothed rate. It forgets by time, not by the number
// of looks, so that more frequent ones change nothing.
type meter struct {
	began, last time.Time
	done        int64
	rate        float64
}

// read returns the objects per second, and the seconds that the rest takes at
// that rate; zeros while neither is known.
func (m *meter) read(now time.Time, done, total int64) (rate float64, secondsLeft int64) {
	if m.began.IsZero() {
		m.began, m.last, m.done = now, now, done
		return 0, 0
	}
	if passed := now.Sub(m.last).Seconds(); passed > 0 {
		current := float64(done-m.done) / passed
		// What there is to remember is no longer than the pass itself: the rate
		// does not have to climb from zero.
		memory := min(meterMemory.Seconds(), now.Sub(m.began).Seconds())
		weight := 1 - math.Exp(-passed/memory)
		if m.rate == 0 {
			weight = 1
		}
		m.rate += weight * (current - m.rate)
		m.last, m.done = now, done
	}
	// Two digits after the point are more than anybody can use.
	rate = math.Round(m.rate*100) / 100
	if left := total - done; rate > 0 && left > 0 {
		secondsLeft = int64(math.Ceil(min(float64(left)/rate, math.MaxInt32)))
	}
	return rate, secondsLeft
}

package storagemigration

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// simulation sends requests through a window to a made-up server, in made-up time.
type simulation struct {
	window *window
	now    time.Time
	// answer returns how long a request takes that is sent while so many others
	// are in flight, and whether it meets a server that has too much to do.
	answer func(inFlight int) (time.Duration, bool)

	pending answers
	// busiest is the largest window so far, sum that of all windows, one for each answer.
	busiest, sum, answered int
}

func newSimulation(w *window) *simulation { return &simulation{window: w, now: time.Unix(0, 0)} }

type answers []simulatedAnswer

type simulatedAnswer struct {
	sent, due time.Time
	fault     bool
}

func (a answers) Len() int           { return len(a) }
func (a answers) Less(i, j int) bool { return a[i].due.Before(a[j].due) }
func (a answers) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *answers) Push(x any)        { *a = append(*a, x.(simulatedAnswer)) }
func (a *answers) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// run goes on for a while and returns the mean window meanwhile.
func (s *simulation) run(d time.Duration) float64 {
	s.sum, s.answered = 0, 0
	for end := s.now.Add(d); s.now.Before(end); {
		for len(s.pending) < s.window.limit {
			took, fault := s.answer(len(s.pending) + 1)
			heap.Push(&s.pending, simulatedAnswer{sent: s.now, due: s.now.Add(took), fault: fault})
			s.window.sent(s.now, len(s.pending))
		}
		next := heap.Pop(&s.pending).(simulatedAnswer)
		s.now = next.due
		if next.fault {
			s.window.fault(next.sent, s.now)
		} else {
			s.window.done(next.sent, s.now)
		}
		s.busiest = max(s.busiest, s.window.limit)
		s.sum += s.window.limit
		s.answered++
	}
	return float64(s.sum) / float64(s.answered)
}

// farAway is a server whose answers take the way there and back, whatever the load.
func (s *simulation) farAway(int) (time.Duration, bool) { return 22 * time.Millisecond, false }

// saturatedAt is a server that does so many requests at a time, of about 10 ms
// each; the others wait for their turn.
func (s *simulation) saturatedAt(parallel int) func(int) (time.Duration, bool) {
	free := make([]time.Time, parallel)
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // The same for each run.
	return func(int) (time.Duration, bool) {
		slices.SortFunc(free, time.Time.Compare)
		if free[0].Before(s.now) {
			free[0] = s.now
		}
		free[0] = free[0].Add(5*time.Millisecond + time.Duration(random.Int64N(int64(10*time.Millisecond))))
		return free[0].Sub(s.now), false
	}
}

func TestWindowReachesTheCeilingOfAFarServer(t *testing.T) {
	t.Parallel()
	s := newSimulation(newWindow(0, 128))
	s.answer = s.farAway
	s.run(700 * time.Millisecond)
	if s.window.limit != 128 || s.busiest != 128 {
		t.Errorf("after 700ms the window is %d, at most it was %d", s.window.limit, s.busiest)
	}
	// And no further, nor down again.
	if mean := s.run(time.Minute); mean != 128 {
		t.Errorf("then it was %.1f", mean)
	}
}

func TestWindowStaysNearWhatTheServerCanDo(t *testing.T) {
	t.Parallel()
	for _, parallel := range []int{4, 12, 32, 64} {
		s := newSimulation(newWindow(0, 128))
		s.answer = s.saturatedAt(parallel)
		s.run(2 * time.Second)
		mean := s.run(time.Minute)
		t.Logf("a server that does %d at a time: the window is %.1f, at most %d", parallel, mean, s.busiest)
		if mean < float64(parallel)*0.9 || mean > float64(max(2*parallel+2*windowStep, modestWindow+3*windowStep)) {
			t.Errorf("the window is %.1f for a server that does %d at a time", mean, parallel)
		}
	}
}

func TestWindowIsHalvedByAFaultOnceForThoseInFlight(t *testing.T) {
	t.Parallel()
	s := newSimulation(newWindow(0, 128))
	s.answer = s.farAway
	s.run(time.Second)
	sent := s.now
	for range 100 { // All of them were sent before the window was halved.
		s.window.fault(sent, sent.Add(20*time.Millisecond))
	}
	if s.window.limit != 64 {
		t.Errorf("the window is %d", s.window.limit)
	}
	s.window.fault(sent.Add(21*time.Millisecond), sent.Add(40*time.Millisecond))
	if s.window.limit != 32 {
		t.Errorf("the window is %d", s.window.limit)
	}
	for i := range 10 {
		at := sent.Add(time.Duration(i+2) * time.Second)
		s.window.fault(at, at)
	}
	if s.window.limit != 1 {
		t.Errorf("a server that is not there gets %d requests at a time", s.window.limit)
	}
	// It comes back.
	s.pending, s.now = nil, sent.Add(time.Minute)
	s.run(10 * time.Second)
	if s.window.limit != 128 {
		t.Errorf("after 10s of good answers the window is %d", s.window.limit)
	}
}

func TestWindowFollowsTheLoadThatTheServerSheds(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // The same for each run.
	// More than 40 at a time are refused at once, as priority and fairness does.
	s := newSimulation(newWindow(0, 128))
	s.answer = func(inFlight int) (time.Duration, bool) {
		if inFlight > 40 {
			return time.Millisecond, true
		}
		return 15*time.Millisecond + time.Duration(random.Int64N(int64(10*time.Millisecond))), false
	}
	s.run(time.Second)
	faults := 0
	shed := s.answer
	s.answer = func(inFlight int) (time.Duration, bool) {
		took, fault := shed(inFlight)
		if fault {
			faults++
		}
		return took, fault
	}
	mean := s.run(time.Minute)
	t.Logf("the window is %.1f, %d of %d requests were refused", mean, faults, s.answered)
	if mean < 24 || mean > 42 {
		t.Errorf("the window is %.1f", mean)
	}
	if faults*50 > s.answered {
		t.Errorf("%d of %d requests were refused", faults, s.answered)
	}
}

// unsteady is a server of so many processors that is a round trip away: a request
// takes about 5 ms of a processor, some much more, and now and then all of them
// wait for a disk or for a garbage collector.
func (s *simulation) unsteady(processors int, roundTrip time.Duration) func(int) (time.Duration, bool) {
	free := make([]time.Time, processors)
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // The same for each run.
	stall := s.now
	return func(int) (time.Duration, bool) {
		at := s.now.Add(roundTrip / 2)
		slices.SortFunc(free, time.Time.Compare)
		if free[0].Before(at) {
			free[0] = at
		}
		if free[0].After(stall) {
			stall = free[0].Add(time.Duration(random.ExpFloat64() * float64(time.Second)))
			for i := range free {
				free[i] = free[i].Add(time.Duration(random.Int64N(int64(150 * time.Millisecond))))
			}
		}
		free[0] = free[0].Add(time.Duration(random.ExpFloat64() * float64(5*time.Millisecond)))
		return free[0].Sub(s.now) + roundTrip/2, false
	}
}

// TestWindowMakesTheMostOfAnUnsteadyServer compares it with the best of all windows
// that do not change: what one round shows is mostly noise.
func TestWindowMakesTheMostOfAnUnsteadyServer(t *testing.T) {
	t.Parallel()
	const during = 20 * time.Second
	for _, processors := range []int{2, 4, 16} {
		for _, roundTrip := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond} {
			answered := func(w *window) (answered int, mean float64) {
				s := newSimulation(w)
				s.answer = s.unsteady(processors, roundTrip)
				mean = s.run(during)
				return s.answered, mean
			}
			best := 0
			for fixed := 8; fixed <= 128; fixed *= 2 {
				n, _ := answered(newWindow(fixed, 128))
				best = max(best, n)
			}
			own, mean := answered(newWindow(0, 128))
			part := float64(own) / float64(best)
			t.Logf("%d processors, %s away: %.0f requests a second, %.2f of the best, with a window of %.1f",
				processors, roundTrip, float64(own)/during.Seconds(), part, mean)
			if part < 0.8 {
				t.Errorf("%d processors, %s away: %.2f of what the best window does", processors, roundTrip, part)
			}
		}
	}
}

// TestWindowStaysModest has a server whose answers take any time: only faults make
// the window smaller than what every server takes.
func TestWindowStaysModest(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // The same for each run.
	s := newSimulation(newWindow(0, 128))
	s.answer = func(int) (time.Duration, bool) {
		return time.Duration(random.ExpFloat64() * float64(20*time.Millisecond)), false
	}
	s.run(time.Second)
	smallest := 128
	for range 3000 {
		s.run(20 * time.Millisecond)
		smallest = min(smallest, s.window.limit)
	}
	if smallest < modestWindow {
		t.Errorf("the window went down to %d", smallest)
	}
	for range 10 {
		s.now = s.now.Add(time.Second)
		s.window.fault(s.now, s.now)
	}
	if s.window.limit != 1 {
		t.Errorf("after ten faults it is %d", s.window.limit)
	}
}

// TestWindowSparesASluggishServer has one that does a single request of 30 ms at a
// time, and then one of 300 ms: with a modest window each waits for ten seconds.
func TestWindowSparesASluggishServer(t *testing.T) {
	t.Parallel()
	s := newSimulation(newWindow(0, 128))
	var free time.Time
	each := 30 * time.Millisecond
	s.answer = func(int) (time.Duration, bool) {
		if free.Before(s.now) {
			free = s.now
		}
		free = free.Add(each)
		return free.Sub(s.now), false
	}
	s.run(10 * time.Second)
	each = 300 * time.Millisecond
	s.run(2 * time.Minute)
	if mean := s.run(time.Hour); mean > modestWindow*2/3 {
		t.Errorf("a server that needs seconds for a request gets %.1f at a time", mean)
	}
}

func TestWindowIsHalvedByRisingLatency(t *testing.T) {
	t.Parallel()
	slow := 0
	s := newSimulation(newWindow(0, 128))
	s.answer = func(int) (time.Duration, bool) {
		return (22 + time.Duration(slow)) * time.Millisecond, false
	}
	s.run(2 * time.Second)
	slow = 100
	smallest := 128
	for range 200 {
		s.run(20 * time.Millisecond)
		smallest = min(smallest, s.window.limit)
	}
	if smallest > 64 {
		t.Errorf("the window is still %d while everything takes five times as long", smallest)
	}
	if smallest < 32 {
		t.Errorf("the window went down to %d, although the time does not depend on it", smallest)
	}
	// The time does not depend on the number in flight: more of them do help.
	s.run(10 * time.Second)
	if s.window.limit != 128 {
		t.Errorf("after 10s of the same latency the window is %d", s.window.limit)
	}
}

func TestWindowDoesNotGrowWhereItIsNotFilled(t *testing.T) {
	t.Parallel()
	w := newWindow(0, 128)
	now := time.Unix(0, 0)
	for range 10_000 { // One at a time, as with a limit of the rate.
		w.sent(now, 1)
		sent := now
		now = now.Add(5 * time.Millisecond)
		w.done(sent, now)
	}
	if w.limit != firstWindow {
		t.Errorf("the window is %d", w.limit)
	}
}

func TestWindowOfAFixedSize(t *testing.T) {
	t.Parallel()
	s := newSimulation(newWindow(20, 128))
	s.answer = s.farAway
	s.run(time.Second)
	s.window.fault(s.now, s.now)
	if s.window.limit != 20 || s.busiest != 20 {
		t.Errorf("the window is %d, at most it was %d", s.window.limit, s.busiest)
	}
	if w := newWindow(0, 4); w.limit != 4 {
		t.Errorf("with a ceiling of 4 it starts at %d", w.limit)
	}
}

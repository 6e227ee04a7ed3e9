package storagemigration

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// watermarkInterval is how often a watermark is told at most: whoever keeps it
// writes to the cluster.
const watermarkInterval = 5 * time.Second

// maxPending bounds the objects that a watermark keeps. One object that is sent
// again and again for minutes lets many others pass.
const maxPending = 1 << 16

// watermark follows the objects in the order of the list, in which they are
// begun but not done, and knows the last one up to which all are done. It keeps
// only those after it.
type watermark struct {
	mu sync.Mutex
	// mark is the number of the last object up to which all are done, last that
	// of the one listed last; the objects between are in the ring.
	mark, last int64
	ring       []listedObject
	// end is the first number that the mark never passes; 0 means none.
	end int64

	reached, listed, told types.NamespacedName
}

type listedObject struct {
	key  types.NamespacedName
	done bool
}

// list adds the next object of the list and returns its number.
func (w *watermark) list(key types.NamespacedName) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	// In a list that is not in order, objects may follow that belong before it.
	if w.last-w.mark > maxPending || w.last > 1 && compareKeys(key, w.listed) <= 0 {
		w.stop(w.last)
	}
	w.listed = key
	if !w.passes(w.last) {
		return w.last
	}
	if w.last-w.mark > int64(len(w.ring)) {
		larger := make([]listedObject, max(64, 2*len(w.ring)))
		for i := w.mark + 1; i < w.last; i++ {
			larger[i%int64(len(larger))] = w.ring[i%int64(len(w.ring))]
		}
		w.ring = larger
	}
	w.ring[w.last%int64(len(w.ring))] = listedObject{key: key}
	return w.last
}

// passes tells whether the mark may ever pass an object. The lock is held.
func (w *watermark) passes(number int64) bool { return w.end == 0 || number < w.end }

// stop keeps the mark from passing an object. The lock is held.
func (w *watermark) stop(number int64) {
	if w.passes(number) {
		w.end = number
	}
}

// done notes what came of an object: it has an outcome that needs no other
// attempt, or not.
func (w *watermark) done(number int64, well bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !well {
		w.stop(number)
	}
	if !w.passes(number) {
		return
	}
	size := int64(len(w.ring))
	w.ring[number%size].done = true
	for w.mark < w.last && w.passes(w.mark+1) && w.ring[(w.mark+1)%size].done {
		w.mark++
		w.reached = w.ring[w.mark%size].key
		w.ring[w.mark%size] = listedObject{}
	}
}

// news returns the mark if it moved since it was last told.
func (w *watermark) news() (types.NamespacedName, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reached == w.told {
		return w.reached, false
	}
	w.told = w.reached
	return w.told, true
}

// compareKeys orders objects as a list does, which is the order of their keys in
// etcd: by the bytes of NAMESPACE/NAME, so that namespace a-b comes before a.
func compareKeys(a, b types.NamespacedName) int { return cmp.Compare(display(a), display(b)) }

// tellWatermark tells the watermark now and then until the function that it
// returns is called, which tells it for the last time.
func (p *pass) tellWatermark() (stop func()) {
	if p.options.Watermark == nil {
		return func() {}
	}
	tell := func() {
		if key, news := p.watermark.news(); news {
			p.options.Watermark(key)
		}
	}
	return every(watermarkInterval, tell)
}

// every calls a function at intervals until the function that it returns is
// called, which calls it for the last time.
func every(interval time.Duration, call func()) (stop func()) {
	done := make(chan struct{})
	var caller sync.WaitGroup
	caller.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				call()
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		caller.Wait()
		call()
	}
}

package doctor

import "sync"

// tally collects what is wrong with the answers to regular requests.
type tally struct {
	lock    sync.Mutex
	answers int
	wrong   map[string]*wrong
	// annotations is the most that an answer had, and in what.
	annotations   int
	annotationsIn string
}

// wrong is one check that answers fail.
type wrong struct {
	answers int
	// message and in are of the first one.
	message, in string
	harmless    bool
}

func newTally() *tally { return &tally{wrong: map[string]*wrong{}} }

// note adds one answer. in says what was asked.
func (t *tally) note(in string, found []violation) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.answers++
	for _, v := range found {
		if t.wrong[v.check] == nil {
			t.wrong[v.check] = &wrong{message: v.message, in: in, harmless: v.harmless}
		}
		t.wrong[v.check].answers++
	}
}

// size notes the annotations of converted objects.
func (t *tally) size(in string, objects []map[string]any) {
	t.lock.Lock()
	defer t.lock.Unlock()
	for _, object := range objects {
		if size := annotationBytes(object); size > t.annotations {
			t.annotations, t.annotationsIn = size, in
		}
	}
}

// first returns the first check that fails and that match accepts, or "".
func (t *tally) first(match func(name string) bool) string {
	t.lock.Lock()
	defer t.lock.Unlock()
	for _, name := range regular() {
		if wrong := t.wrong[name]; wrong != nil && !wrong.harmless && match(name) {
			return name
		}
	}
	return ""
}

// unknown returns what is wrong with an answer that is not wrong with all of them.
func (t *tally) unknown(found []violation) []violation {
	t.lock.Lock()
	defer t.lock.Unlock()
	var others []violation
	for _, v := range found {
		if t.wrong[v.check] == nil {
			others = append(others, v)
		}
	}
	return others
}

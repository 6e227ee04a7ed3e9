package printers

import (
	"fmt"
	"io"
	"time"

	cliprinters "k8s.io/cli-runtime/pkg/printers"
)

// countEvery is how often a count is shown anew on a terminal.
const countEvery = 200 * time.Millisecond

// NewCounter returns a function that shows on a terminal how many of some objects
// are done, one call at a time, and one that takes the line away. Elsewhere than on
// a terminal nothing is shown. A total of 0 is not known.
func NewCounter(w io.Writer, what string) (show func(done, total int64), end func()) {
	if !cliprinters.IsTerminal(w) {
		return func(int64, int64) {}, func() {}
	}
	var last time.Time
	shown := false
	show = func(done, total int64) {
		if time.Since(last) < countEvery {
			return
		}
		last, shown = time.Now(), true
		line := fmt.Sprintf("%s: %d", Escape(what), done)
		if total > 0 {
			line += fmt.Sprintf("/%d", total)
		}
		// That it cannot be written ends nothing.
		_, _ = fmt.Fprintf(w, "\r\x1b[K%s objects", line)
	}
	end = func() {
		if shown {
			_, _ = fmt.Fprint(w, "\r\x1b[K")
		}
	}
	return show, end
}

package printers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

const (
	// minBar is the least width that a bar says anything at, maxBar the most that
	// anybody needs.
	minBar = 6
	maxBar = 40
)

// done counts the objects whose outcome is known.
func done(c v1alpha1.ObjectCounts) int64 {
	return c.Rewritten + c.Current + c.Changed + c.Deleted + c.Refused + c.Failed
}

// rated adds the rate since the step began where the step does not know its own.
func rated(p v1alpha1.Progress, passed time.Duration) v1alpha1.Progress {
	if p.Rate > 0 || passed < time.Second {
		return p
	}
	p.Rate = float64(done(p.Counts)) / passed.Seconds()
	if left := p.Total - done(p.Counts); left > 0 && p.Rate > 0 {
		p.ETASeconds = int64(float64(left)/p.Rate) + 1
	}
	return p
}

func eta(p v1alpha1.Progress) string { return (time.Duration(p.ETASeconds) * time.Second).String() }

// howFar says how far a pass is, on one line: "500 of 2000, 250/s, 6s left".
func howFar(p v1alpha1.Progress, passed time.Duration) string {
	p = rated(p, passed)
	c := p.Counts
	parts := []string{fmt.Sprintf("%d of %d", done(c), max(p.Total, done(c)))}
	if p.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%.0f/s", p.Rate))
	}
	if p.ETASeconds > 0 {
		parts = append(parts, eta(p)+" left")
	}
	for _, part := range []struct {
		n    int64
		what string
	}{{int64(p.InFlight), "in flight"}, {c.Retries, "sent again"}, {c.Refused, "refused"}, {c.Failed, "failed"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return strings.Join(parts, ", ")
}

// statusLine says where a run is.
func statusLine(e v1alpha1.Event, started, now time.Time) string {
	if e.Step == "" {
		if e.Type == v1alpha1.EventPlanFinished {
			return Escape(e.CRD) + ": done"
		}
		return "nothing was begun yet"
	}
	passed := max(0, now.Sub(started))
	line := fmt.Sprintf("%s [%d/%d] %s", Escape(e.CRD), e.StepNumber, e.StepTotal, Escape(e.Step))
	if e.StepNumber == 0 {
		line = fmt.Sprintf("%s, planning: %s", Escape(e.CRD), Escape(e.Step))
	}
	if e.Progress == nil {
		return fmt.Sprintf("%s, for %s", line, passed.Round(time.Second))
	}
	return fmt.Sprintf("%s: %s", line, howFar(*e.Progress, passed))
}

// segment is a part of the line with the bar. Of those that do not fit, the one
// with the highest rank goes first.
type segment struct {
	rank int
	text string
}

func segments(p v1alpha1.Progress) []segment {
	c := p.Counts
	all := []segment{{0, fmt.Sprintf("%d/%d", done(c), max(p.Total, done(c)))}}
	add := func(shown bool, rank int, format string, args ...any) {
		if shown {
			all = append(all, segment{rank, fmt.Sprintf(format, args...)})
		}
	}
	add(p.Rate > 0, 3, "%.0f/s", p.Rate)
	add(p.ETASeconds > 0, 2, "%s left", eta(p))
	add(c.Failed+c.Refused > 0, 1, "%d failed", c.Failed+c.Refused)
	add(p.InFlight > 0, 5, "%d in flight", p.InFlight)
	add(c.Retries > 0, 4, "%d sent again", c.Retries)
	return all
}

// barLine returns a line that fits the width: a bar and what else there is room
// for, the counts at least.
func barLine(p v1alpha1.Progress, width int) string {
	all, space := segments(p), "  "
	if width < 80 {
		space = " "
	}
	for {
		var texts []string
		for _, s := range all {
			texts = append(texts, s.text)
		}
		line := strings.Join(texts, space)
		room := width - len(line) - 1
		switch {
		case room >= minBar:
			return bar(p, min(room, maxBar)) + " " + line
		case len(all) > 1:
			least := slices.MaxFunc(all, func(a, b segment) int { return cmp.Compare(a.rank, b.rank) })
			all = slices.DeleteFunc(all, func(s segment) bool { return s == least })
		default:
			return line[:min(len(line), max(width, 0))]
		}
	}
}

func bar(p v1alpha1.Progress, width int) string {
	inside := width - 2
	full := 0
	if total := max(p.Total, done(p.Counts)); total > 0 {
		full = int(int64(inside) * done(p.Counts) / total)
	}
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", inside-full) + "]"
}

package printers

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	cliprinters "k8s.io/cli-runtime/pkg/printers"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// ProgressMode is how progress is shown.
type ProgressMode string

// The modes.
const (
	// ProgressAuto is a bar on a terminal and plain lines otherwise.
	ProgressAuto ProgressMode = "auto"
	// ProgressPlain is a line per step, and one now and then within a long one.
	ProgressPlain ProgressMode = "plain"
	// ProgressJSON is one event per line, as v1alpha1.Event.
	ProgressJSON ProgressMode = "json"
	// ProgressNone shows nothing.
	ProgressNone ProgressMode = "none"
)

// plainEvery is how often a long step says how far it is in plain lines.
const plainEvery = 5 * time.Second

// NewProgress returns a function that shows events, and one that ends the show.
func NewProgress(w io.Writer, mode ProgressMode) (show func(v1alpha1.Event), end func()) {
	switch {
	case mode == ProgressNone:
		return func(v1alpha1.Event) {}, func() {}
	case mode == ProgressJSON:
		encoder := json.NewEncoder(w)
		return func(e v1alpha1.Event) {
			// A progress that cannot be written must not end the run.
			_ = encoder.Encode(e)
		}, func() {}
	}
	p := &progress{w: w, bars: mode == ProgressAuto && cliprinters.IsTerminal(w)}
	return p.show, p.endBar
}

// progress shows events for people.
type progress struct {
	mutex sync.Mutex
	w     io.Writer
	bars  bool

	container *mpb.Progress
	bar       *mpb.Bar
	pass      int
	started   time.Time
	last      time.Time
}

func (p *progress) show(e v1alpha1.Event) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch e.Type {
	case v1alpha1.EventPlanStarted, v1alpha1.EventPlanFinished:
	case v1alpha1.EventStepStarted:
		p.started, p.last, p.pass = e.Time.Time, e.Time.Time, 0
		p.printf("[%d/%d] %s\n", e.StepNumber, e.StepTotal, Escape(e.Title))
	case v1alpha1.EventWarning:
		p.stopBar()
		p.printf("Warning: %s\n", Escape(e.Message))
	case v1alpha1.EventWaiting:
		p.waiting(e)
	case v1alpha1.EventProgress:
		if p.bars {
			p.draw(*e.Progress)
		} else {
			p.plain(e)
		}
	case v1alpha1.EventStepFinished:
		p.stopBar()
		p.finished(e)
	}
}

func (p *progress) finished(e v1alpha1.Event) {
	indent := "      "
	if e.Progress != nil {
		p.printf("%s%s\n", indent, Counts(e.Progress.Counts))
	}
	switch {
	case e.Outcome != v1alpha1.OutcomeDone:
		p.printf("%s%s: %s\n", indent, e.Outcome, Escape(e.Message))
	case e.Message != "":
		p.printf("%s%s\n", indent, Escape(e.Message))
	}
}

// plain prints a line now and then.
func (p *progress) plain(e v1alpha1.Event) {
	if e.Time.Sub(p.last) < plainEvery {
		return
	}
	p.last = e.Time.Time
	c := e.Progress.Counts
	line := fmt.Sprintf("      %d of %d", done(c), e.Progress.Total)
	if seconds := e.Time.Sub(p.started).Seconds(); seconds > 0 {
		rate := float64(done(c)) / seconds
		line += fmt.Sprintf(", %.0f/s", rate)
		if left := e.Progress.Total - done(c); left > 0 && rate > 0 {
			line += fmt.Sprintf(", %s left", (time.Duration(float64(left)/rate) * time.Second).Round(time.Second))
		}
	}
	if c.Failed > 0 {
		line += fmt.Sprintf(", %d failed", c.Failed)
	}
	p.printf("%s\n", line)
}

// waiting prints now and then what a step waits for.
func (p *progress) waiting(e v1alpha1.Event) {
	if e.Time.Sub(p.last) < plainEvery {
		return
	}
	p.last = e.Time.Time
	p.stopBar()
	p.printf("      %s\n", Escape(e.Message))
}

// done counts the objects whose outcome is known.
func done(c v1alpha1.ObjectCounts) int64 {
	return c.Rewritten + c.Current + c.Changed + c.Deleted + c.Failed
}

// draw moves the bar, one bar a pass.
func (p *progress) draw(now v1alpha1.Progress) {
	if p.bar == nil || p.pass != now.Pass {
		p.stopBar()
		p.pass = now.Pass
		p.container = mpb.New(mpb.WithOutput(p.w), mpb.WithWidth(40), mpb.WithAutoRefresh())
		p.bar = p.container.AddBar(now.Total,
			mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.CountersNoUnit("      %d/%d")),
			mpb.AppendDecorators(
				decor.AverageSpeed(0, " %.0f/s"),
				decor.AverageETA(decor.ET_STYLE_GO, decor.WCSyncSpace),
			))
	}
	p.bar.SetTotal(max(now.Total, done(now.Counts)+1), false)
	p.bar.SetCurrent(done(now.Counts))
}

// stopBar takes the bar away.
func (p *progress) stopBar() {
	if p.bar == nil {
		return
	}
	p.bar.Abort(true)
	p.container.Wait()
	p.bar, p.container = nil, nil
}

// endBar takes the bar away at the end.
func (p *progress) endBar() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.stopBar()
}

// printf writes what people may miss without harm: a closed standard error
// must not end a migration half-way.
func (p *progress) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(p.w, format, args...)
}

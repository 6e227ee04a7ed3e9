package printers

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Progress shows events. Its methods may be called from several goroutines.
type Progress struct {
	// Alone says that there is one plan: what stops it stops the command, whose error
	// says why, so that the step need not.
	Alone bool

	mutex sync.Mutex
	w     io.Writer
	mode  ProgressMode
	bars  bool

	container *mpb.Progress
	bar       *mpb.Bar
	pass      int
	// now is what the bar shows; it is drawn by a goroutine of its own.
	now atomic.Pointer[v1alpha1.Progress]

	started time.Time
	last    time.Time
	// announced says that people know what a plan waits for.
	announced bool
	// latest is the last event with what is known of its step.
	latest v1alpha1.Event
}

// NewProgress returns what shows events on w. End ends the show.
func NewProgress(w io.Writer, mode ProgressMode) *Progress {
	return &Progress{w: w, mode: mode, bars: mode == ProgressAuto && cliprinters.IsTerminal(w)}
}

// Show shows an event.
func (p *Progress) Show(e v1alpha1.Event) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.remember(e)
	switch p.mode {
	case ProgressNone:
	case ProgressJSON:
		p.encode(e)
	case ProgressAuto, ProgressPlain:
		p.show(e)
	}
}

// Planning returns what shows how far the rehearsal is that a plan waits for, from
// now on, one call at a time; where it counts anew, it goes over the objects again. One
// that takes no time is not worth showing.
func (p *Progress) Planning(crd string, now func() time.Time) (show func(done, total int64)) {
	began := now()
	event := v1alpha1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.KindEvent},
		Type:     v1alpha1.EventProgress, CRD: crd, Step: string(v1alpha1.ActionRehearse),
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.started, p.last, p.latest = began, began, event
	last, pass, before := began, 1, int64(0)
	return func(done, total int64) {
		at := now()
		if done < before {
			pass++
			p.mutex.Lock()
			p.started = at
			p.mutex.Unlock()
		}
		before = done
		if at.Sub(last) < countEvery {
			return
		}
		last = at
		e := event
		e.Time = metav1.NewTime(at.UTC())
		e.Progress = &v1alpha1.Progress{Counts: v1alpha1.ObjectCounts{Listed: done, Current: done}, Total: total, Pass: pass}
		p.Show(e)
	}
}

// Status says in one line where the run is: somebody sent a signal to know. It
// does so in every mode.
func (p *Progress) Status(now time.Time) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.mode == ProgressJSON {
		e := p.latest
		e.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.KindEvent}
		e.Type, e.Time = v1alpha1.EventStatus, metav1.NewTime(now.UTC().Truncate(time.Second))
		e.Outcome, e.Message = "", ""
		p.encode(e)
		return
	}
	p.stopBar()
	p.printf("%s\n", statusLine(p.latest, p.started, now))
}

// End takes the bar away.
func (p *Progress) End() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.stopBar()
}

// remember keeps what Status needs.
func (p *Progress) remember(e v1alpha1.Event) {
	switch e.Type {
	case v1alpha1.EventStepStarted:
		p.started, p.last, p.pass = e.Time.Time, e.Time.Time, 0
		p.latest = e
	case v1alpha1.EventProgress, v1alpha1.EventPlanStarted, v1alpha1.EventPlanFinished, v1alpha1.EventStepFinished:
		p.latest = e
	case v1alpha1.EventWarning, v1alpha1.EventWaiting, v1alpha1.EventStatus:
	}
}

func (p *Progress) encode(e v1alpha1.Event) {
	// A progress that cannot be written must not end the run.
	_ = json.NewEncoder(p.w).Encode(e)
}

// show shows an event to people.
func (p *Progress) show(e v1alpha1.Event) {
	switch e.Type {
	case v1alpha1.EventPlanStarted, v1alpha1.EventPlanFinished, v1alpha1.EventStatus:
	case v1alpha1.EventStepStarted:
		p.printf("[%d/%d] %s\n", e.StepNumber, e.StepTotal, Escape(e.Title))
	case v1alpha1.EventWarning:
		p.stopBar()
		p.printf("Warning: %s\n", Escape(e.Message))
	case v1alpha1.EventWaiting:
		p.waiting(e)
	case v1alpha1.EventProgress:
		switch {
		case p.bars:
			p.announce(e)
			p.draw(*e.Progress)
		case e.Time.Sub(p.last) >= plainEvery:
			p.announce(e)
			p.last = e.Time.Time
			p.printf("      %s\n", howFar(*e.Progress, e.Time.Sub(p.started)))
		}
	case v1alpha1.EventStepFinished:
		p.stopBar()
		p.finished(e)
	}
}

// announce says what goes on before there is a plan, whose steps have titles.
func (p *Progress) announce(e v1alpha1.Event) {
	if e.StepNumber == 0 && !p.announced {
		p.announced = true
		p.printf("Rehearsing the rewrite of %s for the plan (server dry run)\n", Escape(e.CRD))
	}
}

func (p *Progress) finished(e v1alpha1.Event) {
	indent := "      "
	if e.Progress != nil {
		p.printf("%s%s\n", indent, Counts(e.Progress.Counts))
	}
	switch {
	case e.Outcome != v1alpha1.OutcomeDone && (p.Alone || e.Outcome == v1alpha1.OutcomeInterrupted):
		p.printf("%s%s\n", indent, e.Outcome) // It is why the command ends, which says so.
	case e.Outcome != v1alpha1.OutcomeDone:
		p.printf("%s%s: %s\n", indent, e.Outcome, Escape(e.Message))
	case e.Message != "":
		p.printf("%s%s\n", indent, Escape(e.Message))
	}
}

// waiting prints now and then what a step waits for.
func (p *Progress) waiting(e v1alpha1.Event) {
	if e.Time.Sub(p.last) < plainEvery {
		return
	}
	p.last = e.Time.Time
	p.stopBar()
	p.printf("      %s\n", Escape(e.Message))
}

// draw moves the bar, one bar a pass.
func (p *Progress) draw(now v1alpha1.Progress) {
	now = rated(now, time.Since(p.started))
	p.now.Store(&now)
	if p.bar == nil || p.pass != now.Pass {
		p.stopBar()
		p.pass = now.Pass
		p.container = mpb.New(mpb.WithOutput(p.w), mpb.WithAutoRefresh())
		bar, err := p.container.Add(0, mpb.BarFillerFunc(func(w io.Writer, space decor.Statistics) error {
			_, err := io.WriteString(w, barLine(*p.now.Load(), space.AvailableWidth))
			return err //nolint:wrapcheck // It goes to the library, which stops drawing.
		}), mpb.BarFillerTrim())
		if err != nil {
			return // Nobody misses the bar more than the migration.
		}
		p.bar = bar
	}
}

// stopBar takes the bar away.
func (p *Progress) stopBar() {
	if p.bar == nil {
		return
	}
	p.bar.Abort(true)
	p.container.Wait()
	p.bar, p.container = nil, nil
}

// printf writes what people may miss without harm: a closed standard error
// must not end a migration half-way.
func (p *Progress) printf(format string, args ...any) {
	line, end := strings.CutSuffix(fmt.Sprintf(format, args...), "\n")
	line = hang(line, TerminalWidth(p.w))
	if end {
		line += "\n"
	}
	_, _ = io.WriteString(p.w, line)
}

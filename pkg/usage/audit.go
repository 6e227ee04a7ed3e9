package usage

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// longestAuditLine is the longest line of an audit log that is looked at. At the
// level RequestResponse an event has the object twice, and etcd takes 1.5 MiB.
const longestAuditLine = 8 << 20

// AuditOptions says where audit logs are.
type AuditOptions struct {
	// Logs are files, directories (every file in them), or "-". A file is lines of
	// JSON, with gzip or without.
	Logs []string
	// Stdin is read for "-".
	Stdin io.Reader
	// Window and Now are the time that has to be known about.
	Window time.Duration
	Now    time.Time
	// During leaves out the requests that were received at other times; nil for none.
	During []Span
	// Progress is called now and then with the bytes that were read, after
	// decompressing; it may be nil.
	Progress func(log string, bytes int64)
}

// Span is a time, with both its ends. A zero To has not come yet.
type Span struct{ From, To time.Time }

func (s Span) has(at time.Time) bool {
	return !at.Before(s.From) && (s.To.IsZero() || !at.After(s.To))
}

// Audit is what audit logs tell. It is read once, for all targets: a pipe can
// only be read once, and gigabytes take a while.
type Audit struct {
	options AuditOptions
	targets map[schema.GroupResource]*clientCounter
	filter  auditFilter
	recent  *recentRequests
	// Stats is what was read.
	Stats AuditStats
	// unread are the logs that could not be read, or not to their end.
	unread []string
}

var _ Collector = &Audit{}

// AuditStats is what was read of audit logs.
type AuditStats struct {
	Files, Bytes, Lines int64
	// Events is the number of events about the resources that were asked for.
	Events int64
	// Corrupt, TooLong and CutOff are lines that were skipped: what is no audit
	// event, what is longer than a line may be, and the last one of a log that
	// ends within it.
	Corrupt, TooLong, CutOff int64
	// From and To is the time that the logs are about. To is found by looking at
	// some of the lines, and may be a few lines early.
	From, To time.Time
}

// ReadAudit reads audit logs, all of them to their end. Missing or unreadable
// input of the user is an error; a file of a directory that is no audit log is
// told as one that was not looked at.
//
// Memory is bounded whatever the logs hold: one line of a bounded length, the
// rows of a bounded number of clients, and the last maxRecent requests. Lines that do not name a
// group that is asked for are not decoded.
func ReadAudit(ctx context.Context, options AuditOptions, targets []Target) (*Audit, error) {
	a := &Audit{
		options: options, targets: map[schema.GroupResource]*clientCounter{}, filter: auditFilter{}, recent: newRecentRequests(),
	}
	for _, target := range targets {
		a.targets[target.Resource("").GroupResource()] = &clientCounter{versions: target.Versions, clients: map[clientKey]*clientRequests{}}
		a.filter[target.Group()] = true
	}
	for _, log := range options.Logs {
		if err := a.readLog(ctx, log); err != nil {
			return nil, fmt.Errorf("reading audit log %s: %w", log, err)
		}
	}
	a.recent.finish(a.Stats.To)
	return a, nil
}

// Source implements [Collector].
func (a *Audit) Source() v1alpha1.UsageSource { return v1alpha1.UsageAudit }

// Collect implements [Collector]. It only looks up what ReadAudit found.
func (a *Audit) Collect(_ context.Context, target Target) ([]v1alpha1.UsageEvidence, []v1alpha1.Unlooked, error) {
	if len(a.options.Logs) == 0 {
		return nil, []v1alpha1.Unlooked{{
			Source: v1alpha1.UsageAudit, Why: "no audit log was given", Command: "--audit-log FILE", Optional: true,
		}}, nil
	}
	counter := a.targets[target.Resource("").GroupResource()]
	if counter == nil {
		return nil, nil, fmt.Errorf("looking up %s in the audit log: it was not read for it", target.CRD.Name)
	}
	return counter.evidence(a.Stats.To), a.unlooked(target, counter), nil
}

// read counts the events of one log. It reports whether there is any audit event
// in it, of whatever resource.
func (a *Audit) read(ctx context.Context, name string, in io.Reader) (audit bool, err error) {
	lines := newLineReader(in, longestAuditLine)
	before := a.Stats.Bytes
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if ctx.Err() != nil {
				return audit, context.Cause(ctx)
			}
			a.Stats.Bytes = before + lines.bytes
			if a.options.Progress != nil {
				a.options.Progress(name, a.Stats.Bytes)
			}
		}
		line, state, err := lines.next()
		if err != nil {
			a.Stats.Bytes = before + lines.bytes
			return audit, err // After an interrupt, the cause of it.
		}
		audit = a.line(line, state, n, audit) || audit
	}
}

// line counts one line, the nth of its log. known says that there was an audit
// event in the log before; the result, that there is one in this line.
func (a *Audit) line(line []byte, state lineState, n int, known bool) bool {
	line = trim(line)
	if len(line) == 0 && state == lineWhole {
		return false
	}
	a.Stats.Lines++
	switch {
	case state == lineTooLong:
		a.Stats.TooLong++
		return false
	case !whole(line):
		if state == lineUnended {
			a.Stats.CutOff++
		} else {
			a.Stats.Corrupt++
		}
		return false
	}
	// Every line would take a fifth of the time.
	if n < 64 || n%16 == 0 || state == lineUnended {
		if received, ok := receivedTime(line); ok {
			a.covers(received)
		}
	}
	if !a.filter.may(line) {
		return !known && isAudit(line)
	}
	events, ok := decodeEvents(line)
	if !ok {
		a.Stats.Corrupt++
		return false
	}
	for i := range events {
		a.event(&events[i])
	}
	return true
}

func (a *Audit) event(event *auditEvent) {
	if event.ObjectRef == nil {
		return
	}
	counter := a.targets[schema.GroupResource{Group: event.ObjectRef.APIGroup, Resource: event.ObjectRef.Resource}]
	if counter == nil {
		return
	}
	during := func(span Span) bool { return span.has(event.Received.Time) }
	if a.options.During != nil && !slices.ContainsFunc(a.options.During, during) {
		return
	}
	a.Stats.Events++
	a.covers(event.Received.Time)
	counter.count(event, a.recent)
}

func (a *Audit) covers(at time.Time) {
	if at.IsZero() {
		return
	}
	if a.Stats.From.IsZero() || at.Before(a.Stats.From) {
		a.Stats.From = at
	}
	if at.After(a.Stats.To) {
		a.Stats.To = at
	}
}

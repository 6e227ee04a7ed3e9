package cmd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	cliprinters "k8s.io/cli-runtime/pkg/printers"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/printers"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// usageRequests are the flags of the sources that count requests: audit logs and
// the metrics of the API servers.
type usageRequests struct {
	auditLogs   []string
	watch       time.Duration
	skipMetrics bool
	// cutShort is why the watch ended early, if it did.
	cutShort error
}

func (r *usageRequests) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringArrayVar(&r.auditLogs, "audit-log", nil, "Audit logs of the API servers: a file, a directory with all that was rotated, or - for standard input; JSON lines, also with gzip")
	flags.DurationVar(&r.watch, "watch", 0, "Watch the metrics of the API servers for this time; Ctrl-C ends it and shows what there is")
}

func (r *usageRequests) check(command *cobra.Command, skip []string) error {
	r.skipMetrics = slices.Contains(skip, string(v1alpha1.UsageMetrics))
	switch {
	case command.Flags().Changed("watch") && r.watch <= 0:
		return UsageErrorf(command, "--watch %s: it must be longer than 0", r.watch)
	case r.watch > 0 && r.skipMetrics:
		return UsageErrorf(command, "--watch watches the metrics, which --skip leaves out")
	case slices.Contains(r.auditLogs, ""):
		return UsageErrorf(command, "--audit-log is empty: name a file, a directory or -")
	}
	if first := slices.Index(r.auditLogs, "-"); first >= 0 && slices.Contains(r.auditLogs[first+1:], "-") {
		return UsageErrorf(command, "--audit-log - is given twice: standard input can only be read once")
	}
	return nil
}

// words are the flags for a command to paste.
func (r *usageRequests) words() []string {
	var words []string
	for _, log := range r.auditLogs {
		words = append(words, "--audit-log", shellQuote(log))
	}
	return words
}

// readAuditLogs reads the audit logs before anything is asked of the cluster:
// logs that cannot be read are a mistake of the user.
func (r *usageRequests) readAuditLogs(ctx context.Context, f *Factory, window time.Duration, targets []usage.Target) (usage.Collector, error) {
	line := newStatusLine(f)
	defer line.end()
	return usage.ReadAudit(ctx, usage.AuditOptions{
		Logs: r.auditLogs, Stdin: f.In, Window: window, Now: now(),
		Progress: func(log string, bytes int64) {
			line.show("audit log %s: %d MiB read", printers.Escape(log), bytes>>20)
		},
	}, targets)
}

// collect adds audit logs and metrics to the collectors. With --watch, all others
// look first, and the context that is returned goes on after Ctrl-C, which ends
// the watch and not the report.
func (r *usageRequests) collect(
	ctx context.Context, f *Factory, client cluster.Interface, window time.Duration, targets []usage.Target, others []usage.Collector,
) (context.Context, []usage.Collector, error) {
	audit, err := r.readAuditLogs(ctx, f, window, targets)
	if err != nil {
		return nil, nil, err
	}
	others = append(others, audit)
	if r.skipMetrics {
		return ctx, others, nil
	}
	options := usage.MetricsOptions{Window: window, Watch: r.watch}
	if r.watch > 0 {
		if others, err = usage.Collected(ctx, others, targets); err != nil {
			return nil, nil, err
		}
		line := newStatusLine(f)
		defer line.end()
		options.Progress = func(p usage.WatchProgress) {
			line.show("watching %d API servers: %s of %s, %d requests", p.Servers, p.Elapsed.Round(time.Second), p.Of, p.Requests)
		}
	}
	metrics, err := usage.ReadMetrics(ctx, client, options, targets)
	if err != nil {
		return nil, nil, err
	}
	if metrics.Interrupted {
		r.cutShort = fmt.Errorf("the watch ended before %s were over: %w", r.watch, context.Cause(ctx))
		ctx = context.WithoutCancel(ctx)
	}
	return ctx, append(others, metrics), nil
}

// statusLine tells on standard error how something long goes: in one line of a
// terminal, and else in a line now and then.
type statusLine struct {
	f        *Factory
	terminal bool
	last     time.Time
	shown    bool
}

// The times between two lines.
const (
	statusOnTerminal = 200 * time.Millisecond
	statusElsewhere  = 10 * time.Second
)

func newStatusLine(f *Factory) *statusLine {
	return &statusLine{f: f, terminal: cliprinters.IsTerminal(f.ErrOut), last: time.Now()}
}

func (s *statusLine) show(format string, args ...any) {
	every := statusElsewhere
	if s.terminal {
		every = statusOnTerminal
	}
	if time.Since(s.last) < every {
		return
	}
	s.last, s.shown = time.Now(), true
	if s.terminal {
		s.f.tell("\r\x1b[K"+format, args...)
		return
	}
	s.f.tell(format+"\n", args...)
}

// end takes the line away.
func (s *statusLine) end() {
	if s.shown && s.terminal {
		s.f.tell("\r\x1b[K")
	}
}

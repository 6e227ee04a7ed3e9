package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

const (
	// brownoutTick is how often the clock is looked at. A machine that slept goes by
	// the wall clock, one whose clock was changed by the other.
	brownoutTick = 200 * time.Millisecond
	// tellEvery is how often to say how long it takes.
	tellEvery = 30 * time.Second
	// serveTimeout bounds one attempt to serve the version again.
	serveTimeout = 15 * time.Second
	// serveRetry is how long to wait between two attempts, at most.
	serveRetry = 5 * time.Second
	// lookEvery is how often to look whether the brownout still is one, and lookTimeout
	// how long that may take: a version must not stay unserved for it.
	lookEvery, lookTimeout = 2 * time.Second, 5 * time.Second
)

// brownout unserves a version for a time, once or more, and watches.
func (r *run) brownout(ctx context.Context, left []v1alpha1.Step, result *v1alpha1.StepReport) error {
	if r.plan.Intent.Brownout == nil {
		return errors.New("the plan says neither for how long nor how often")
	}
	intent := *r.plan.Intent.Brownout
	r.report.Brownout = &v1alpha1.BrownoutReport{Rounds: []v1alpha1.BrownoutRound{}, Watched: []string{}}
	effects := r.watchEffects(ctx)
	var err error
	for round := 1; round <= intent.Repeat; round++ {
		next := time.Now()
		if intent.Every != nil {
			next = next.Add(intent.Every.Duration)
		}
		if err = r.brownoutRound(ctx, left, result, effects); err != nil || round == intent.Repeat {
			break
		}
		between := fmt.Sprintf("%s is served until the next brownout, %d of %d", r.step.Version, round+1, intent.Repeat)
		if err = r.pause(ctx, next, between, func(ctx context.Context, _ time.Duration) error { return r.stillThere(ctx, "") }); err != nil {
			break
		}
	}
	r.seen(ctx, effects)
	return err
}

// brownoutRound unserves the version, waits, and serves it again whatever happens.
func (r *run) brownoutRound(ctx context.Context, left []v1alpha1.Step, result *v1alpha1.StepReport, effects *effects) error {
	version := r.step.Version
	if err := r.noReferences(ctx, version, effects); err != nil {
		return err
	}
	note, err := r.checkUse(ctx)
	if err != nil {
		return err
	}
	if note != "" {
		result.Message = note
	}
	// The end of ctx while the patch is sent would leave open whether it was done.
	r.marking = nil
	patching, cancel := context.WithTimeout(context.WithoutCancel(ctx), serveTimeout)
	after, err := r.patchCRD(patching, left)
	cancel()
	if err != nil {
		if r.marking != nil && !apierrors.IsConflict(err) {
			// It may have been done although its answer did not come.
			err = errors.Join(err, r.serveAgain(ctx, r.marking))
		}
		return err
	}
	mark := r.marking
	r.index = versionIndex(after, version)
	begun := time.Now()
	r.report.Brownout.Rounds = append(r.report.Brownout.Rounds, v1alpha1.BrownoutRound{Started: *r.time(), Planned: mark.Until})
	r.report.Brownout.Served = false
	r.warn("%s is not served until %s; should this process end, run: %s", version, mark.Until.UTC().Format(time.RFC3339), r.Gates.Back)
	waited := r.unserves(ctx, version, endpoint(after))
	if waited == nil {
		waited = r.pause(ctx, begun.Add(r.plan.Intent.Brownout.For.Duration), version+" is not served", func(ctx context.Context, left time.Duration) error {
			effects.sample(ctx, left)
			return r.stillThere(ctx, version)
		})
	}
	err = r.serveAgain(ctx, mark)
	effects.unserved = append(effects.unserved, r.unserved(ctx, mark))
	r.report.Brownout.Rounds[len(r.report.Brownout.Rounds)-1].Ended = *r.time()
	if refusal(waited) != nil && err != nil {
		return waited // The same, twice.
	}
	return errors.Join(waited, err)
}

// unserves waits until the version is no longer served, or until there is nothing to
// wait for: somebody may serve it again at once.
func (r *run) unserves(ctx context.Context, version, other string) error {
	return r.eventuallyUnless(ctx, version+" is no longer served", func(ctx context.Context) error {
		return cmp.Or(r.listed(ctx, version, false), r.readable(ctx, other))
	}, func(ctx context.Context) error { return r.stillThere(ctx, version) })
}

// unserved is the time of a brownout by the clock of the API server, in which its audit
// logs are. That clock is read in whole seconds.
func (r *run) unserved(ctx context.Context, mark *v1alpha1.Brownout) usage.Span {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), serveTimeout)
	defer cancel()
	span := usage.Span{From: mark.Started.Time}
	if now, err := r.serverTime(ctx); err == nil {
		span.To = now.Add(time.Second)
	}
	return span
}

// pause waits until a time, tells how long that is, and looks around meanwhile: an
// error of look ends it.
func (r *run) pause(ctx context.Context, until time.Time, what string, look func(ctx context.Context, left time.Duration) error) error {
	ticker := time.NewTicker(brownoutTick)
	defer ticker.Stop()
	wall := until.Round(0) // Without the monotonic clock, which stands still while a machine sleeps.
	told, looked := time.Time{}, time.Time{}
	for {
		now := time.Now()
		left := min(until.Sub(now), wall.Sub(now.Round(0)))
		if left <= 0 {
			return nil
		}
		if now.Sub(told) >= tellEvery {
			told = now
			r.emit(v1alpha1.EventWaiting, func(e *v1alpha1.Event) {
				e.Message = fmt.Sprintf("%s, %s left", what, left.Round(time.Second))
			})
		}
		if now.Sub(looked) >= min(lookEvery, left/2) {
			if err := look(ctx, left); err != nil {
				return err
			}
			looked = time.Now()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", until.UTC().Format(time.RFC3339), context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// seen puts what was seen into the report.
func (r *run) seen(ctx context.Context, effects *effects) {
	report := r.report.Brownout
	if len(report.Rounds) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), serveTimeout)
	defer cancel()
	effects.finish(ctx, report)
	report.NotWatched = append(report.NotWatched,
		"metrics of the API servers: a request at a version that is not served is answered before it is counted")
	if r.Gates.Requests == nil {
		report.NotWatched = append(report.NotWatched, "audit logs, which name each client that failed (--audit-log)")
		return
	}
	found, unread, err := r.Gates.Requests(ctx, effects.unserved)
	if err != nil {
		unread = append(unread, err.Error())
	}
	for _, why := range unread {
		report.NotWatched = append(report.NotWatched, "audit logs: "+why)
	}
	if err == nil {
		report.Watched = append(report.Watched, "audit logs")
	}
	report.Clients = found
}

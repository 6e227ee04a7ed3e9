package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/plan"
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
)

// brownout unserves a version for a time, once or more, and watches.
func (r *run) brownout(ctx context.Context, left []v1alpha1.Step, result *v1alpha1.StepReport) error {
	if r.plan.Intent.Brownout == nil {
		return errors.New("the plan says neither for how long nor how often")
	}
	intent := *r.plan.Intent.Brownout
	r.report.Brownout = &v1alpha1.BrownoutReport{Rounds: []v1alpha1.BrownoutRound{}, Watched: []string{}}
	effects := r.watchEffects(ctx)
	started, err := r.serverTime(ctx)
	if err != nil {
		return err
	}
	for round := 1; round <= intent.Repeat; round++ {
		next := time.Now()
		if intent.Every != nil {
			next = next.Add(intent.Every.Duration)
		}
		if err = r.brownoutRound(ctx, left, result, effects); err != nil || round == intent.Repeat {
			break
		}
		if err = r.pause(ctx, next, fmt.Sprintf("%s is served until the next brownout, %d of %d", r.step.Version, round+1, intent.Repeat), nil); err != nil {
			break
		}
	}
	r.seen(ctx, started, effects)
	return err
}

// brownoutRound unserves the version, waits, and serves it again whatever happens.
func (r *run) brownoutRound(ctx context.Context, left []v1alpha1.Step, result *v1alpha1.StepReport, effects *effects) error {
	version := r.step.Version
	if err := r.noReferences(ctx, version); err != nil {
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
	r.index = slices.IndexFunc(after.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version })
	begun := time.Now()
	r.report.Brownout.Rounds = append(r.report.Brownout.Rounds, v1alpha1.BrownoutRound{Started: *r.time(), Planned: mark.Until})
	r.report.Brownout.Served = false
	r.warn("%s is not served until %s; should this process end, run: %s", version, mark.Until.UTC().Format(time.RFC3339), r.Gates.Back)
	waited := eventually(ctx, version+" is no longer served", func(ctx context.Context) error {
		return errors.Join(r.listed(ctx, version, false), r.readable(ctx, endpoint(after)))
	})
	if waited == nil {
		waited = r.pause(ctx, begun.Add(r.plan.Intent.Brownout.For.Duration), version+" is not served", effects)
	}
	err = r.serveAgain(ctx, mark)
	r.report.Brownout.Rounds[len(r.report.Brownout.Rounds)-1].Ended = *r.time()
	return errors.Join(waited, err)
}

// pause waits until a time, tells how long that is, and looks around meanwhile.
func (r *run) pause(ctx context.Context, until time.Time, what string, effects *effects) error {
	ticker := time.NewTicker(brownoutTick)
	defer ticker.Stop()
	wall := until.Round(0) // Without the monotonic clock, which stands still while a machine sleeps.
	told := time.Time{}
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
		effects.sample(ctx, left)
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", until.UTC().Format(time.RFC3339), context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// serveAgain serves the version again. It goes on until that is done, or is not for
// this run to do: the context of the run may have ended long ago.
func (r *run) serveAgain(ctx context.Context, mark *v1alpha1.Brownout) error {
	ctx = context.WithoutCancel(ctx)
	wait := brownoutTick
	for attempt := 1; ; attempt++ {
		done, err := r.serveOnce(ctx, mark)
		if done || err != nil && errors.As(err, new(*RefusedError)) {
			r.report.Brownout.Served = err == nil
			return err
		}
		if !apierrors.IsConflict(err) || attempt > maxConflicts {
			r.warn("%s is STILL NOT SERVED: %s; trying again. By hand: %s", mark.Version, cluster.Explain(err).Message, r.byHand(ctx, mark))
			time.Sleep(wait)
			wait = min(2*wait, serveRetry)
		}
	}
}

// serveOnce tries to serve the version again. A refusal says that there is nothing
// left to try.
func (r *run) serveOnce(ctx context.Context, mark *v1alpha1.Brownout) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, serveTimeout)
	defer cancel()
	found, err := r.Cluster.CRDs().Get(ctx, r.expected.Name)
	switch {
	case apierrors.IsNotFound(err):
		return false, refusef("the CRD %s is gone", r.expected.Name)
	case err != nil:
		return false, err
	case string(found.UID) != r.expected.UID:
		return false, refusef("the CRD %s was deleted and created again: %s was not served again", found.Name, mark.Version)
	}
	i := slices.IndexFunc(found.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == mark.Version })
	if i < 0 {
		return false, refusef("%s is not in spec.versions any more: somebody removed it", mark.Version)
	}
	other, err := lifecycle.ReadBrownout(crd.CRD{CustomResourceDefinition: found})
	if err == nil && other != nil && other.ID != mark.ID && other.Version == mark.Version {
		return false, refusef("%s by now: this run leaves it to that one", lifecycle.DescribeBrownout(*other, mark.Until.Time))
	}
	patch := plan.EndBrownout(i, mark.Version, found.Annotations)
	if found.Spec.Versions[i].Served && other == nil {
		r.expected = identify(found)
		return true, nil // Somebody else was first.
	}
	body, err := plan.Body(*patch, found)
	if err != nil {
		return false, err
	}
	after, err := r.Cluster.CRDs().Patch(ctx, found.Name, cluster.PatchRequest{
		Type: types.JSONPatchType, Body: body, FieldManager: r.FieldManager,
	})
	if err != nil {
		return false, err
	}
	r.expected = identify(after)
	if err := eventually(ctx, mark.Version+" is served", func(ctx context.Context) error {
		return errors.Join(r.listed(ctx, mark.Version, true), r.readable(ctx, mark.Version))
	}); err != nil {
		r.warn("%s", err)
	}
	return true, nil
}

// byHand is the command that serves the version again without this tool.
func (r *run) byHand(ctx context.Context, mark *v1alpha1.Brownout) string {
	index := -1
	if found, err := r.Cluster.CRDs().Get(ctx, r.expected.Name); err == nil {
		index = slices.IndexFunc(found.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == mark.Version })
	}
	if index < 0 {
		index = r.index
	}
	return fmt.Sprintf(`kubectl patch crd %s --type json -p '[{"op":"test","path":"/spec/versions/%d/name","value":"%s"},`+
		`{"op":"replace","path":"/spec/versions/%d/served","value":true}]'`, r.expected.Name, index, mark.Version, index)
}

// seen puts what was seen into the report.
func (r *run) seen(ctx context.Context, started time.Time, effects *effects) {
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
	found, unread, err := r.Gates.Requests(ctx, started)
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

// noReferences looks once more for children that the garbage collector would delete
// (fact 16).
func (r *run) noReferences(ctx context.Context, version string) error {
	if r.plan.Intent.AllowOwnerReferences {
		return nil
	}
	return r.checkReferences(ctx, version)
}

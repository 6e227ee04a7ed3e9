package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

const (
	// renewEvery is how often the hold is written: each writing is a change of the
	// CRD that every controller which watches CRDs gets to see.
	renewEvery = 40 * time.Second
	// holdTTL outlasts two renewals that fail.
	holdTTL = 2 * time.Minute
	// releaseTimeout bounds giving the hold back when the run itself was ended.
	releaseTimeout = 10 * time.Second
	holdInterval   = time.Second
	// holdManager is a manager of its own: the time of a manager's entry tells when
	// it last changed what it owns, and spec.versions must not seem to have changed.
	holdManager = "kubectl-crdver-migration"
)

// HoldOptions say as whom a run holds the CRD, and from whom it may take over.
type HoldOptions struct {
	// Hold has ID, Holder, Process and Command set.
	Hold v1alpha1.Hold
	// Gone says of the holder of another run that its process is known to be gone.
	Gone func(v1alpha1.Hold) bool
	// TakeOver allows to take over from a run that does not renew its hold.
	TakeOver bool
	// TTL and Renew are for tests; 0 means two minutes, and 40 seconds.
	TTL, Renew time.Duration
}

// holder keeps the hold of one run. The steps of the run and the goroutine that
// renews it use it at the same time.
type holder struct {
	run     *run
	options HoldOptions
	// denied says that the annotation may not be written: the run goes on without.
	denied bool
	// left is the progress that an earlier run left.
	left *v1alpha1.HoldProgress

	mu   sync.Mutex
	hold v1alpha1.Hold
	// progressed says that there is something to leave for a later run.
	progressed bool
}

// acquire writes the hold into the CRD, where the plan rewrites objects: two runs at
// once that do would do all work twice, and each would find that the other changed
// the CRD. The returned context ends when another run takes over; release has to be
// called with what came of the run.
func (r *run) acquire(ctx context.Context, found *apiextensionsv1.CustomResourceDefinition) (
	held context.Context, release func(error), err error,
) {
	if r.Options.Hold == nil || r.plan.Hold == "" {
		return ctx, func(error) {}, nil
	}
	h := &holder{run: r, options: *r.Options.Hold}
	h.hold = h.options.Hold
	h.hold.TTLSeconds = int64(cmp.Or(h.options.TTL, holdTTL) / time.Second)
	h.hold.StartedAt = *r.time()
	if err := h.take(ctx, found); err != nil {
		return ctx, nil, err
	}
	r.holder = h
	if h.denied {
		return ctx, func(error) {}, nil
	}
	held, stop := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { h.renew(held, stop) })
	return held, func(err error) {
		stop(nil)
		renewing.Wait()
		h.release(ctx, err)
	}, nil
}

// take writes the hold, unless another run has it.
func (h *holder) take(ctx context.Context, found *apiextensionsv1.CustomResourceDefinition) error {
	for attempt := 1; ; attempt++ {
		other, err := lifecycle.ReadHold(found.Annotations)
		if err != nil {
			return refusef("%s; remove it if no run is at work: kubectl annotate crd %s %s-", err, found.Name, lifecycle.HoldAnnotation)
		}
		if attempt > 1 && other != nil && other.ID == h.hold.ID {
			h.expect(found) // It arrived; only its answer was lost.
			return nil
		}
		if found, err = h.wait(ctx, found, other); err != nil {
			return err
		}
		if other != nil {
			h.left = other.Progress
		}
		written, err := h.write(ctx, found)
		switch {
		case err == nil:
			h.expect(written)
			return nil
		case (apierrors.IsConflict(err) || cluster.Transient(err) || cluster.Unanswered(err)) && ctx.Err() == nil && attempt < maxConflicts:
			if !apierrors.IsConflict(err) {
				if err := cluster.Pause(ctx, err, attempt-1); err != nil {
					return fmt.Errorf("writing the annotation %s: %w", lifecycle.HoldAnnotation, err)
				}
			}
			if found, err = h.run.readCRD(ctx); err != nil {
				return fmt.Errorf("reading the CRD again: %w", err)
			}
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			// Safety does not depend on it: each write has its own preconditions.
			h.denied = true
			h.run.warn("the annotation %s cannot be written (%s): a second run at the same time will not notice this one",
				lifecycle.HoldAnnotation, cluster.Explain(err).Message)
			return nil
		default:
			return fmt.Errorf("writing the annotation %s: %w", lifecycle.HoldAnnotation, err)
		}
	}
}

// wait returns when the CRD may be taken. Where it is to be taken over, the hold
// has to stay as it is for as long as it lasts without being renewed: the clocks of
// two machines may differ by any amount.
func (h *holder) wait(
	ctx context.Context, found *apiextensionsv1.CustomResourceDefinition, other *v1alpha1.Hold,
) (*apiextensionsv1.CustomResourceDefinition, error) {
	if other == nil || other.ID == "" || other.ID == h.hold.ID {
		return found, nil
	}
	if h.options.Gone != nil && h.options.Gone(*other) {
		h.run.warn("%s was ended before it was done: taking over", other.Holder)
		return found, nil
	}
	if !h.options.TakeOver {
		return nil, refusef("another run is at work: %s", lifecycle.DescribeHold(*other))
	}
	ttl := time.Duration(other.TTLSeconds) * time.Second
	if ttl <= 0 || ttl > time.Hour {
		ttl = holdTTL
	}
	h.run.warn("taking over from %s if it is not heard of for %s", other.Holder, ttl)
	text := found.Annotations[lifecycle.HoldAnnotation]
	for until := time.Now().Add(ttl); time.Now().Before(until); {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another run: %w", context.Cause(ctx))
		case <-time.After(min(holdInterval, time.Until(until)+time.Millisecond)):
		}
		now, err := h.run.readCRD(ctx)
		if err != nil {
			return nil, fmt.Errorf("waiting for another run: %w", err)
		}
		if now.Annotations[lifecycle.HoldAnnotation] != text {
			return nil, refusef("another run is at work and was just heard of: %s", lifecycle.DescribeHold(*other))
		}
		found = now
	}
	return found, nil
}

// write puts the hold as it is now into the CRD that was just read.
func (h *holder) write(ctx context.Context, found *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	h.mu.Lock()
	h.hold.RenewedAt = *h.run.time()
	text := lifecycle.HoldText(h.hold)
	h.mu.Unlock()
	return h.annotate(ctx, found, &text)
}

// expect takes the CRD as the first writing of the hold left it for what the run
// began with: with every write, the server appends the storage version to
// storedVersions where it is missing. This is not somebody else's change.
func (h *holder) expect(written *apiextensionsv1.CustomResourceDefinition) {
	now, began := identify(written), &h.run.expected
	if slices.Equal(append(slices.Clone(began.StoredVersions), now.StorageVersion), now.StoredVersions) && now.Generation == began.Generation {
		began.StoredVersions = now.StoredVersions
	}
}

// annotate sets the annotation of exactly this state of the CRD; nil removes it.
func (h *holder) annotate(ctx context.Context, found *apiextensionsv1.CustomResourceDefinition, text *string) (*apiextensionsv1.CustomResourceDefinition, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": found.UID, "resourceVersion": found.ResourceVersion,
		"annotations": map[string]*string{lifecycle.HoldAnnotation: text},
	}})
	if err != nil {
		return nil, fmt.Errorf("encoding the annotation: %w", err)
	}
	return h.run.Cluster.CRDs().Patch(ctx, found.Name, cluster.PatchRequest{
		Type: types.MergePatchType, Body: body, FieldManager: holdManager,
	})
}

// renew writes the hold now and then, and stops the run when another one took over.
// That a renewal fails ends nothing: nobody else can get through either, and what
// the run does to the CRD is checked by itself.
func (h *holder) renew(ctx context.Context, stop context.CancelCauseFunc) {
	ticker := time.NewTicker(cmp.Or(h.options.Renew, renewEvery))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := h.renewOnce(ctx); err != nil {
			stop(err)
			return
		}
	}
}

func (h *holder) renewOnce(ctx context.Context) error {
	for range maxConflicts {
		found, err := h.run.Cluster.CRDs().Get(ctx, h.run.plan.Target.CRD.Name)
		if err != nil {
			return nil //nolint:nilerr // See renew.
		}
		if string(found.UID) != h.run.plan.Target.CRD.UID {
			return refusef("the CRD was deleted and created again")
		}
		if err := h.check(found); err != nil {
			return err
		}
		if _, err := h.write(ctx, found); !apierrors.IsConflict(err) {
			return nil //nolint:nilerr // See renew.
		}
	}
	return nil
}

// check returns an error where another run took over. It is asked before each
// write of the CRD, on the very state that the write is for: a process that was
// stopped for an hour finds out before it does anything. Where nothing is written
// any more, the other run may have come to its end already.
func (h *holder) check(found *apiextensionsv1.CustomResourceDefinition) error {
	if h == nil || h.denied {
		return nil
	}
	other, err := lifecycle.ReadHold(found.Annotations)
	switch {
	case err != nil:
		return refusef("%s: this run does nothing more", err)
	case other == nil || other.ID == "":
		return refusef("the annotation %s is not that of this run any more: another one took over, or somebody removed it; "+
			"this run does nothing more", lifecycle.HoldAnnotation)
	case other.ID != h.hold.ID:
		return refusef("%s took over: this run does nothing more", other.Holder)
	}
	return nil
}

// takenOver gives an error the reason why the context of a held run ended: that the
// request in hand was broken off says nothing. What came of objects stays what it is.
func takenOver(held context.Context, err error) error {
	cause, partial := refusal(context.Cause(held)), new(partialError)
	switch {
	case err == nil, cause == nil, refusal(err) != nil, errors.As(err, &partial):
		return err
	case errors.Is(err, context.Canceled):
		return cause
	}
	return fmt.Errorf("%w; %w", cause, err)
}

// release removes the hold, or leaves the progress of a run that ended early.
func (h *holder) release(ctx context.Context, runErr error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	var text *string
	h.mu.Lock()
	if runErr != nil && h.progressed {
		left := v1alpha1.Hold{Command: h.hold.Command, StartedAt: h.hold.StartedAt, RenewedAt: *h.run.time(), Progress: h.hold.Progress}
		encoded := lifecycle.HoldText(left)
		text = &encoded
	}
	h.mu.Unlock()
	var err error
	for range maxConflicts {
		var found *apiextensionsv1.CustomResourceDefinition
		if found, err = h.run.readCRD(ctx); err != nil {
			break
		}
		now, readErr := lifecycle.ReadHold(found.Annotations)
		if readErr != nil || now == nil || now.ID != h.hold.ID {
			return // It is not ours any more.
		}
		if _, err = h.annotate(ctx, found, text); !apierrors.IsConflict(err) && !cluster.Transient(err) && !cluster.Unanswered(err) {
			break
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		if failed, ok := err.(interface{ Unwrap() []error }); ok && ctx.Err() != nil {
			causes := failed.Unwrap()
			err = causes[len(causes)-1] // Not that nobody waits longer, but what for.
		}
		h.run.warn("the annotation %s could not be removed: %s", lifecycle.HoldAnnotation, cluster.Explain(err).Message)
	}
}

// begin notes that a migration of the CRD as it is now begins, and returns the
// object up to which an earlier run did it already. It is the same migration only
// if nothing that counts changed since (rule 5).
func (h *holder) begin(c v1alpha1.CRDIdentity, endpoint string) (through types.NamespacedName) {
	if h == nil {
		return types.NamespacedName{}
	}
	progress := v1alpha1.HoldProgress{
		Generation: c.Generation, StorageVersion: c.StorageVersion, StoredVersions: c.StoredVersions, Endpoint: endpoint,
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if left := h.left; left != nil && left.Generation == progress.Generation && left.StorageVersion == progress.StorageVersion &&
		slices.Equal(left.StoredVersions, progress.StoredVersions) && left.ThroughName != "" {
		progress.ThroughNamespace, progress.ThroughName = left.ThroughNamespace, left.ThroughName
		through = types.NamespacedName{Namespace: left.ThroughNamespace, Name: left.ThroughName}
	}
	h.hold.Progress = &progress
	return through
}

// reached notes the object up to which all are rewritten.
func (h *holder) reached(key types.NamespacedName) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.hold.Progress; p != nil {
		h.progressed = true
		p.ThroughNamespace, p.ThroughName = key.Namespace, key.Name
	}
}

// count notes how many objects are done.
func (h *holder) count(p v1alpha1.Progress) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hold.Progress != nil {
		h.hold.Progress.Done, h.hold.Progress.Total = p.Counts.Listed, p.Total
	}
}

package executor

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/plan"
)

// maxConflicts is how often a patch is tried again after somebody else wrote
// the CRD in between. Controllers write conditions all the time; more than
// this is somebody who fights us.
const maxConflicts = 10

// crdPatience is how long a read of the CRD is tried again while no server answers:
// as long as a pass tries one object (storagemigration.PassOptions.RetryFor).
const crdPatience = 2 * time.Minute

// readCRD reads the CRD. That an API server is restarted in the midst of a run is no
// reason to break it off.
func (r *run) readCRD(ctx context.Context) (found *apiextensionsv1.CustomResourceDefinition, err error) {
	err = cluster.RetryFor(ctx, crdPatience, func() error {
		found, err = r.Cluster.CRDs().Get(ctx, r.plan.Target.CRD.Name)
		return err
	})
	return found, err
}

// current reads the CRD and makes sure that it is still as the plan expects.
// Where somebody else changed what counts, the plan is made again: if the steps
// that are left would be the same the run goes on, otherwise it stops (rule 4).
func (r *run) current(ctx context.Context, left []v1alpha1.Step) (*apiextensionsv1.CustomResourceDefinition, error) {
	c, err := r.readCRD(ctx)
	if apierrors.IsNotFound(err) {
		return nil, refusef("the CRD %s is gone", r.expected.Name)
	}
	if err != nil {
		return nil, err
	}
	if c.DeletionTimestamp != nil {
		return nil, refusef("the CRD %s is being deleted", r.expected.Name)
	}
	now := identify(c)
	if now.UID == r.expected.UID { // Another CRD of that name has no hold of ours; the plan is stale.
		if err := r.holder.check(c); err != nil {
			return nil, err
		}
	}
	planned, found := r.plan.Target, r.plan.Target
	planned.CRD, found.CRD = r.expected, now
	changed := plan.Stale(planned, found)
	if changed == "" {
		r.expected = now
		return c, nil
	}
	if r.serverTrimmed(c) {
		if err := r.restoreStored(ctx, c); err != nil {
			return nil, err
		}
		return r.current(ctx, left)
	}
	if now.UID != r.expected.UID || r.Replan == nil || r.baseline != nil {
		// What was migrated and verified was another state of the CRD (rule 5).
		return nil, refusef("%s: nothing is done on top of somebody else's change; run again to plan from here", changed)
	}
	again, err := r.Replan(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s, and the plan could not be made again: %w", changed, err)
	}
	if !again.Applyable {
		return nil, refusef("%s, and the plan is now blocked: %s", changed, again.Blockers[0].Message)
	}
	if differs := plan.Differs(left, again.Steps); differs != "" {
		return nil, refusef("%s, and the plan would now be another: %s; run again to plan from here", changed, differs)
	}
	r.warn("%s; the steps that are left stay the same", changed)
	r.expected = again.Target.CRD
	return c, nil
}

// patchCRD sends the step's patch, with the UID and the resourceVersion that were
// just read as preconditions. Where its answer is lost, the CRD tells whether it arrived.
func (r *run) patchCRD(ctx context.Context, left []v1alpha1.Step) (*apiextensionsv1.CustomResourceDefinition, error) {
	var unanswered *lostPatch
	for attempt := 1; ; attempt++ {
		if unanswered != nil {
			if now, err := r.readCRD(ctx); err == nil && unanswered.arrived(now) {
				r.expected = identify(now)
				r.wrote(unanswered.before, now)
				return now, nil
			}
		}
		c, err := r.current(ctx, left)
		if err != nil {
			return nil, err
		}
		patch, err := r.marked(ctx, c)
		if err != nil {
			return nil, err
		}
		body, err := plan.Body(patch, c)
		if err != nil {
			return nil, err
		}
		after, err := r.Cluster.CRDs().Patch(ctx, c.Name, cluster.PatchRequest{
			Type: types.JSONPatchType, Body: body, Subresource: patch.Subresource, FieldManager: r.fieldManager(),
		})
		if err == nil {
			r.expected = identify(after)
			r.wrote(c, after)
			return after, nil
		}
		sent := lost(ctx, err, c, body, r.fieldManager(), patch.Subresource)
		if sent != nil {
			unanswered = sent
		}
		if attempt == maxConflicts || sent == nil && !r.overtaken(ctx, c, err) {
			return nil, err
		}
		if sent != nil { // The server is busy, or away.
			if err := cluster.Pause(ctx, err, attempt-1); err != nil {
				return nil, err
			}
		}
	}
}

// overtaken reports whether a patch failed because somebody else wrote or
// deleted the CRD after it was read. Where a test of the patch does not hold any
// more, because the versions have other places now or the CRD is another one,
// the server answers 422 and gives no reason.
func (r *run) overtaken(ctx context.Context, read *apiextensionsv1.CustomResourceDefinition, err error) bool {
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return true
	case apierrors.IsInvalid(err):
		now, err := r.readCRD(ctx)
		return apierrors.IsNotFound(err) || err == nil && now.ResourceVersion != read.ResourceVersion
	}
	return false
}

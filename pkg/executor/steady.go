package executor

import (
	"context"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// steadyInterval is how often the CRD is looked at while objects are rewritten.
const steadyInterval = 2 * time.Second

// steady returns a context that ends when somebody changes the spec of the CRD: what
// was rehearsed and looked at was another one, and another schema may drop fields of
// each object that is written yet (rule 5). That a look fails ends nothing: the CRD is
// looked at again when the objects are done.
func (r *run) steady(ctx context.Context) (watched context.Context, end func()) {
	watched, stop := context.WithCancelCause(ctx)
	began := *r.baseline
	var looking sync.WaitGroup
	looking.Go(func() {
		ticker := time.NewTicker(steadyInterval)
		defer ticker.Stop()
		for {
			select {
			case <-watched.Done():
				return
			case <-ticker.C:
			}
			found, err := r.Cluster.CRDs().Get(watched, began.Name)
			if gone := r.isGone(found, err); gone != nil {
				stop(gone)
				return
			}
			if err == nil && (string(found.UID) != began.UID || found.Generation != began.Generation) {
				stop(refusef("somebody changed the CRD while objects were rewritten (generation %d, it was %d): nothing more is rewritten; run again to plan from here",
					found.Generation, began.Generation))
				return
			}
		}
	})
	return watched, func() {
		stop(nil)
		looking.Wait()
	}
}

// deleted tells whether an error of a read of the CRD says that it was deleted. A
// balancer without a server answers 404, too, in words of its own.
func deleted(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// isGone returns a refusal where the CRD was deleted, by what a read of it came to.
func (r *run) isGone(found *apiextensionsv1.CustomResourceDefinition, err error) error {
	switch {
	case deleted(err):
		return refusef("the CRD %s is gone: somebody deleted it, and its objects with it", r.expected.Name)
	case err == nil && string(found.UID) != r.expected.UID:
		return refusef("the CRD %s was deleted and created again; run again to plan from here", r.expected.Name)
	}
	return nil
}

// unlessGone returns what objects came to, or that the CRD is gone, which says why.
func (r *run) unlessGone(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	found, readErr := r.Cluster.CRDs().Get(ctx, r.expected.Name)
	if gone := r.isGone(found, readErr); gone != nil {
		return gone
	}
	return err
}

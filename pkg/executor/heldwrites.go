package executor

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
)

// awaited reports whether a step of the plan waits for the writes that a webhook may
// hold.
func (r *run) awaited() bool {
	return slices.ContainsFunc(r.plan.Steps, func(s v1alpha1.Step) bool { return s.HeldWrites })
}

// wrote takes down when this run changed spec.versions. A server that took a write on
// before that ends it as the CRD was then: it persists it at the old storage version,
// or names a version in managedFields that is no longer served.
func (r *run) wrote(before, after *apiextensionsv1.CustomResourceDefinition) {
	if !equality.Semantic.DeepEqual(before.Spec.Versions, after.Spec.Versions) {
		r.versionsChanged = r.Now()
	}
}

// changed returns when spec.versions was last changed before this run, by our clock.
// managedFields have the time of an API server, whose clock may be behind ours by more
// than the wait is long, or ahead: that time is held against the same clock. Where it
// is not known, spec.versions counts as changed just now.
func (r *run) changed(ctx context.Context, c *apiextensionsv1.CustomResourceDefinition) time.Time {
	last := lifecycle.VersionsChanged(crd.CRD{CustomResourceDefinition: c})
	if last.IsZero() {
		return r.Now()
	}
	there, err := r.serverTime(ctx)
	now := r.Now() // Not before it: what the request took would be taken off the wait.
	if err != nil || last.After(there) {
		return now
	}
	return now.Add(time.Second - there.Sub(last)) // Neither has fractions of a second.
}

// notBefore returns when the pass that counts may start: at once, unless a
// webhook may still hold a write that began before spec.versions changed.
func (r *run) notBefore() time.Time {
	if !r.step.HeldWrites {
		return time.Time{}
	}
	until := r.versionsChanged.Add(storagemigration.WriteTimeout)
	if left := until.Sub(r.Now()); left > 0 {
		what := "is persisted at the old version"
		if r.step.Action == v1alpha1.ActionCleanManagedFields {
			what = "was sent at " + r.step.Version
		}
		r.warn("the pass that counts starts in %s: a webhook may hold a write until then that %s", left.Round(time.Second), what)
	}
	return until
}

// awaitWrites waits until no webhook can hold a write any more that began before
// spec.versions changed. One that was sent at a version which is no longer served adds
// a managedFields entry of it whenever it ends.
func (r *run) awaitWrites(ctx context.Context) error {
	left := r.notBefore().Sub(r.Now())
	if left <= 0 {
		return nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the writes that a webhook may hold: %w", context.Cause(ctx))
	}
}

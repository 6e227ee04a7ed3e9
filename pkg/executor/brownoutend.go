package executor

import (
	"cmp"
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

// serveAgain serves the version again. It goes on until that is done, or is not for
// this run to do: the context of the run may have ended long ago. Whoever interrupts
// it once more ends the process, and has read what to do then.
func (r *run) serveAgain(ctx context.Context, mark *v1alpha1.Brownout) error {
	ctx = context.WithoutCancel(ctx)
	wait := brownoutTick
	told := time.Time{}
	for attempt := 1; ; attempt++ {
		done, err := r.serveOnce(ctx, mark)
		if done || refusal(err) != nil {
			r.report.Brownout.Served = err == nil
			return err
		}
		if apierrors.IsConflict(err) && attempt <= maxConflicts {
			continue
		}
		if time.Since(told) >= tellEvery {
			told = time.Now()
			r.warn("%s is STILL NOT SERVED: %s; it is tried again until it is. Whoever gives up has to run: %s (or: %s)",
				mark.Version, cluster.Explain(err).Message, r.Gates.Back, r.byHand(mark))
		}
		time.Sleep(wait)
		wait = min(2*wait, serveRetry)
	}
}

// serveOnce tries to serve the version again. A refusal says that there is nothing
// left to try.
func (r *run) serveOnce(ctx context.Context, mark *v1alpha1.Brownout) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, serveTimeout)
	defer cancel()
	found, err := r.Cluster.CRDs().Get(ctx, r.expected.Name)
	if err := r.gone(found, err); err != nil {
		return false, err
	}
	i := versionIndex(found, mark.Version)
	if i < 0 {
		return false, refusef("%s is not in spec.versions any more: somebody removed it", mark.Version)
	}
	r.index = i
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
	err = r.eventuallyUnless(ctx, mark.Version+" is served", func(ctx context.Context) error {
		return cmp.Or(r.listed(ctx, mark.Version, true), r.readable(ctx, mark.Version))
	}, func(ctx context.Context) error { return refusal(r.gone(r.Cluster.CRDs().Get(ctx, r.expected.Name))) })
	switch {
	case refusal(err) != nil:
		return false, err
	case err != nil:
		r.warn("%s", err)
	}
	return true, nil
}

// eventuallyUnless is eventually, but for an end that makes waiting pointless.
func (r *run) eventuallyUnless(ctx context.Context, what string, check, ended func(context.Context) error) error {
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := r.eventually(waiting, what, func(ctx context.Context) error {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if end := ended(ctx); end != nil {
			stop(end)
		}
		return err
	})
	if end := refusal(err); end != nil {
		return end
	}
	return err
}

// refusal returns the refusal in an error, or nil.
func refusal(err error) error {
	refused := new(RefusedError)
	if errors.As(err, &refused) {
		return refused
	}
	return nil
}

// stillThere looks whether a brownout can go on: whether the CRD is there and, during
// one, whether nobody serves the version. An API server that cannot be asked is no
// reason to end it: nothing could be done about it now.
func (r *run) stillThere(ctx context.Context, unserved string) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	found, err := r.Cluster.CRDs().Get(ctx, r.expected.Name)
	if gone := refusal(r.gone(found, err)); gone != nil {
		return gone
	}
	switch {
	case err != nil:
		return nil //nolint:nilerr // The next look may go better.
	case found.DeletionTimestamp != nil:
		// Who is to clean up may need the version for it.
		return refusef("the CRD %s is being deleted: the brownout ends", found.Name)
	case unserved == "":
		return nil
	}
	switch i := versionIndex(found, unserved); {
	case i < 0:
		return refusef("somebody removed %s from spec.versions: the brownout ends", unserved)
	case found.Spec.Versions[i].Served:
		return refusef("somebody else serves %s again: the brownout ends", unserved)
	}
	return nil
}

// gone refuses to go on with a CRD that is not there any more, or is another one.
// Any other error is returned as it is.
func (r *run) gone(found *apiextensionsv1.CustomResourceDefinition, err error) error {
	switch {
	case deleted(err):
		r.report.Brownout.Gone = true
		return refusef("the CRD %s is gone: somebody deleted it", r.expected.Name)
	case err != nil:
		return err
	case string(found.UID) != r.expected.UID:
		r.report.Brownout.Gone = true
		return refusef("the CRD %s was deleted and created again: the versions of the new one are left as they are", found.Name)
	}
	return nil
}

// crdGone reports whether a brownout found the CRD gone: nothing can be continued, and
// there is no way back.
func (r *run) crdGone() bool { return r.report.Brownout != nil && r.report.Brownout.Gone }

func versionIndex(c *apiextensionsv1.CustomResourceDefinition, version string) int {
	return slices.IndexFunc(c.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version })
}

// byHand is the command that serves the version again without this tool, on the CRD
// as it was seen last.
func (r *run) byHand(mark *v1alpha1.Brownout) string {
	return fmt.Sprintf(`kubectl patch crd %s --type json -p '[{"op":"test","path":"/spec/versions/%d/name","value":"%s"},`+
		`{"op":"replace","path":"/spec/versions/%d/served","value":true}]'`, r.expected.Name, r.index, mark.Version, r.index)
}

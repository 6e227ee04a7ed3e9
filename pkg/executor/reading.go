package executor

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/plan"
)

const (
	// readPageSize is what kubectl and the engine use, too.
	readPageSize = 500
	// firstReadWait and lastReadWait are the times before a page is asked for again.
	firstReadWait, lastReadWait = 100 * time.Millisecond, 2 * time.Second
	// unansweredFactor is by how much longer a page is asked for while no server answers
	// than while the answer is another one than expected: two minutes in all, as long as
	// a pass tries one object.
	unansweredFactor = 4
)

// readAll lists every object, metadata only, and tells how far it is. What the server
// does not show yet may come for as long as a change of the CRD may take to be seen;
// the list itself takes as long as it takes, with a million objects much longer. An
// error of final ends it at once.
func (r *run) readAll(ctx context.Context, version string, final func(error) error) error {
	objects := r.Cluster.Objects(r.resource(version))
	options := cluster.PageOptions{Limit: readPageSize}
	seen, told := int64(0), time.Time{}
	for {
		page, err := r.readPage(ctx, objects, options, final)
		if token, expired := cluster.InconsistentContinue(err); expired && token != options.Continue {
			options.Continue = token // Fact 9.
			continue
		}
		if err != nil {
			return err
		}
		seen += int64(len(page.Items))
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
		if now := time.Now(); now.Sub(told) >= rehearsalInterval {
			told = now
			total := seen
			if page.RemainingItemCount != nil {
				total += *page.RemainingItemCount
			}
			r.progress(v1alpha1.Progress{Counts: v1alpha1.ObjectCounts{Listed: seen, Current: seen}, Total: total, Pass: 1})
		}
	}
}

// readPage lists one page, again and again for a while if that fails. No request has a
// deadline for it: that a page is slow says nothing of the objects.
func (r *run) readPage(
	ctx context.Context, objects cluster.Objects, options cluster.PageOptions, final func(error) error,
) (*metav1.PartialObjectMetadataList, error) {
	began, wait := time.Now(), firstReadWait
	for {
		page, err := objects.ListMetadata(ctx, options)
		if _, expired := cluster.InconsistentContinue(err); err == nil || expired {
			return page, err
		}
		if cluster.Initializing(err) {
			// Fact 14: another list may tell why.
			if _, cause := objects.ListMetadata(ctx, cluster.PageOptions{Limit: 1}); cause != nil {
				err = cause
			}
		}
		if end := final(err); end != nil && ctx.Err() == nil {
			return nil, end
		}
		patience := r.settle()
		if cluster.Transient(err) || cluster.ConverterDown(err) {
			patience *= unansweredFactor
		}
		wait = max(wait, min(cluster.RetryAfter(err), patience))
		if ctx.Err() == nil && time.Since(began)+wait > patience {
			return nil, err
		}
		select {
		case <-ctx.Done():
			// Why it ended, not which request was broken off by it.
			return nil, fmt.Errorf("reading every object: %w", context.Cause(ctx))
		case <-time.After(wait):
		}
		wait = min(2*wait, lastReadWait)
	}
}

// unreadable tells whether an error of a list is the server's word that it has objects
// which it cannot decode or convert. That it cannot fill its cache, for as long as it
// was asked, comes of the same (fact 14). No answer, or one about something else, says
// nothing of the objects.
func unreadable(err error) bool {
	return cluster.Initializing(err) || cluster.Explain(err).Reason == cluster.ReasonConversionFailed && !cluster.ConverterDown(err)
}

// readWithout reads every object after a version was removed, and puts the version back
// where one cannot be read: re-adding it unserved makes such objects readable again
// (fact 1).
//
// Where the list only comes to no end, the version stays removed. That no object needs
// it was proven before it was removed; this is the second look, and a server that does
// not answer, or an interrupt, is no evidence against the proof. To put the version
// back then would be another write to that very server, and a run that a slow server
// undoes each time never gets done. Should the proof be wrong nevertheless, the object
// is intact, and the same version brings it back later as well as now: so what is not
// known is said, and how to find out.
func (r *run) readWithout(ctx context.Context, before, after *apiextensionsv1.CustomResourceDefinition, version string) error {
	gone := after.Spec.Group + "/" + version
	err := r.readAll(ctx, endpoint(after), func(err error) error {
		if slices.ContainsFunc(cluster.Unreadable(err), func(o cluster.UnreadableObject) bool { return o.GroupVersion == gone }) {
			return err // No server will ever read that one without the version.
		}
		return nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil || !unreadable(err):
		return fmt.Errorf("%s was removed, but not every object was read since: %w; whether one cannot be read any more is told, "+
			"and mended, by: kubectl crdver rescue %s", version, err, after.Name)
	}
	if failed := r.putBack(ctx, before, version); failed != nil {
		return fmt.Errorf("%w; putting %s back failed too: %w", err, version, failed)
	}
	r.removed = false
	return fmt.Errorf("%w; %s was put back, unserved, so that the objects can be read", err, version)
}

// putBack adds a removed version again, unserved.
func (r *run) putBack(ctx context.Context, before *apiextensionsv1.CustomResourceDefinition, version string) error {
	for _, v := range before.Spec.Versions {
		if v.Name != version {
			continue
		}
		step := *r.step
		step.Patch = plan.AddVersion(v)
		r.step = &step
		_, err := r.patchCRD(ctx, nil)
		return err
	}
	return fmt.Errorf("%s had no version %s", before.Name, version)
}

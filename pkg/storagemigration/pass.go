package storagemigration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// NoOpPatch is a merge patch that changes nothing and is refused with 409 if the
// object is no longer what the list said. It is the shortest there is.
func NoOpPatch(object *metav1.PartialObjectMetadata) (body []byte, skip bool, err error) {
	// A resourceVersion is opaque to clients, but never needs escapes: it is a
	// number in every storage there is, and %q writes JSON for anything printable.
	return fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q}}`, object.ResourceVersion), false, nil
}

// Pass sends one patch for each object. It returns an error when it could not
// reach all objects: the context ended, the list failed, or the server was
// unavailable for too long. The result then holds what was done until then. What
// happens to single objects is in the result, not in the error.
func Pass(ctx context.Context, objects cluster.Objects, options PassOptions) (PassResult, error) {
	slim := options.Patch == nil && options.Observe == nil
	p := &pass{
		objects: objects, options: options.withDefaults(), named: has[*named](objects),
		slim: slim, noOp: options.Patch == nil, breaker: newBreaker(),
	}
	if p.options.Patch == nil {
		p.options.Patch = NoOpPatch
	}
	p.gate = newGate(newWindow(p.options.Concurrency, p.options.MaxConcurrency))
	if p.options.QPS > 0 {
		p.limiter = flowcontrol.NewTokenBucketRateLimiter(p.options.QPS, max(1, int(p.options.QPS/10)))
	}
	disconnect, err := p.connect()
	if err != nil {
		return PassResult{}, err
	}
	defer disconnect()
	return p.run(ctx)
}

// connect gives the pass connections of its own: as many as the window asks for,
// so that the number of streams in one is no limit, and others than those of the
// pass before, so that a load balancer may lead them to other servers.
func (p *pass) connect() (disconnect func(), err error) {
	inner := innermost(&p.objects)
	shared := *inner
	pooled, ok := shared.(cluster.Pooled)
	if !ok {
		if p.options.MaxBandwidth > 0 {
			return nil, fmt.Errorf("limiting the bandwidth of %s: its connections cannot be counted", objectsName(p.objects))
		}
		return func() {}, nil
	}
	pool := pooled.Pool()
	*inner = pool
	if p.options.MaxBandwidth > 0 {
		p.bandwidth = newBandwidth(p.options.MaxBandwidth, pool.Carried)
	}
	return func() {
		*inner = shared
		pool.Close()
	}, nil
}

// pass is the state of one pass. Its size does not depend on the number of
// objects.
type pass struct {
	objects cluster.Objects
	options PassOptions
	limiter flowcontrol.RateLimiter
	breaker *breaker
	gate    *gate
	// bandwidth is nil without a limit.
	bandwidth *bandwidth
	watermark watermark
	// named says that the list has nothing but names.
	named bool
	// slim says that nobody needs more of an object than its name and versions.
	slim bool
	// noOp says that the patches change nothing, so that the managers stay the same.
	noOp bool
	// stop ends the pass early, for a reason.
	stop context.CancelCauseFunc

	// listedAt is the number of the place that the objects are listed at, from 0 for
	// that of the patches, and unlisted why not there.
	listedAt int
	unlisted error
	// seen is the number of objects on the pages so far, taken that of those that
	// must come to an outcome.
	seen, taken int64
	// pending are the objects on the queue and in work.
	pending sync.WaitGroup
	// unwell says that an object in the namespaces that go first failed.
	unwell atomic.Bool
	// answered is when the server last answered anything but "come back later".
	answered atomic.Int64
	// given up are the objects that were retried for as long as allowed.
	givenUp atomic.Int64

	mu     sync.Mutex
	result PassResult
	total  int64
	groups failureGroups
	meter  meter
}

func (p *pass) run(ctx context.Context) (PassResult, error) {
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p.stop = stop

	// Requests in flight survive the end of run for a moment, so that what the
	// server did is known and counted.
	requests, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	defer context.AfterFunc(run, func() { time.AfterFunc(p.options.Grace, abandon) })()

	stopProgress, stopWatermark := p.reportProgress(), p.tellWatermark()

	// As many as a page, so that the next page is read while this one is worked
	// off.
	queue := make(chan listed, p.options.PageSize)
	var workers sync.WaitGroup
	for range p.options.workers() {
		workers.Go(func() {
			for object := range queue {
				well := false
				if run.Err() == nil { // Otherwise it is only taken off the queue.
					well = p.rewrite(run, requests, object.PartialObjectMetadata)
				}
				p.over(object, well)
			}
		})
	}
	listErr := p.listAll(run, requests, queue)
	close(queue)
	workers.Wait()
	stopWatermark()
	stopProgress()

	result := p.finish()
	// The end of run explains the error of the list, not the other way round.
	if run.Err() != nil {
		return result, fmt.Errorf("going over the objects of %s: %w", objectsName(p.objects), ended(run))
	}
	if listErr != nil {
		return result, listErr
	}
	if got := result.Counts.Listed; got != p.taken {
		return result, fmt.Errorf("going over the objects of %s: %d of %d have no outcome", objectsName(p.objects), p.taken-got, p.taken)
	}
	result.Complete = p.options.Namespace == "" && p.options.LabelSelector == "" && p.options.Filter == nil && !result.HeldBack
	return result, nil
}

// over notes that an object is off the queue, and whether it is done.
func (p *pass) over(object listed, well bool) {
	if object.number > 0 {
		p.watermark.done(object.number, well)
	} else if !well {
		p.unwell.Store(true)
	}
	p.pending.Done()
}

// rewrite sends the patch of one object and counts what came of it. It returns
// whether the object needs no other attempt.
func (p *pass) rewrite(run, requests context.Context, object *metav1.PartialObjectMetadata) (well bool) {
	if p.named {
		if object, well = p.read(run, requests, object); object == nil {
			return well
		}
	}
	body, skip, err := p.options.Patch(object)
	if err != nil {
		p.count(object, OutcomeFailed, fmt.Errorf("making the patch: %w", err))
		return false
	}
	if skip {
		p.count(object, OutcomeCurrent, nil)
		return true
	}
	key := keyOf(object)
	request := cluster.PatchRequest{
		Type:         p.options.PatchType,
		Body:         body,
		Subresource:  p.options.Subresource,
		DryRun:       p.options.DryRun,
		FieldManager: p.options.FieldManager,
	}
	var patched *metav1.PartialObjectMetadata
	err = p.send(run, requests, weighed, func(ctx context.Context) (err error) {
		patched, err = p.objects.PatchMetadata(ctx, key, request)
		return err
	})
	if err != nil && p.options.Detour != nil && cluster.Explain(err).Reason == cluster.ReasonInvalid {
		patched, err = p.detour(run, requests, key, request, err)
	}
	if p.options.Subresource != "" && apierrors.IsNotFound(err) && p.about(err, object) {
		err = p.confirmGone(run, requests, object, err)
	}
	switch {
	case err != nil:
		return p.unwritten(object, err)
	case p.options.Canaries[key]:
		p.count(object, OutcomeRewritten, nil)
	case p.options.DryRun || patched.ResourceVersion == object.ResourceVersion:
		p.count(object, OutcomeCurrent, nil) // Fact 4.
	default:
		p.compareManagers(object, patched)
		p.count(object, OutcomeRewritten, nil)
	}
	return true
}

// unwritten counts an object by the error of the last request for it. It returns
// whether the object needs no other attempt.
func (p *pass) unwritten(object *metav1.PartialObjectMetadata, err error) (well bool) {
	gaveUp := new(gaveUpError)
	switch {
	case isInterrupted(err): // Nobody knows what the server did; the object has no outcome.
	case apierrors.IsNotFound(err) && p.about(err, object):
		p.count(object, OutcomeDeleted, nil)
		return true
	case apierrors.IsConflict(err) && p.about(err, object):
		p.count(object, OutcomeChanged, nil)
		return true
	case errors.As(err, &gaveUp):
		p.giveUp(object, gaveUp)
	default:
		p.count(object, OutcomeFailed, err)
	}
	return false
}

// confirmGone reads an object whose subresource was answered 404. A server whose
// version has no such subresource says that in the same words: one that has not seen
// the CRD change would have every object count as deleted.
func (p *pass) confirmGone(run, requests context.Context, object *metav1.PartialObjectMetadata, gone error) error {
	var found *metav1.PartialObjectMetadata
	err := p.send(run, requests, unweighed, func(ctx context.Context) (err error) {
		found, err = p.objects.GetMetadata(ctx, keyOf(object))
		return err
	})
	switch {
	case err != nil:
		return err
	case found.UID != object.UID:
		return gone // Whatever has the name now was created later.
	}
	return fmt.Errorf("the server answered 404 for the subresource %s, and the object is there: it takes the version for one without that subresource; "+
		"run again, or without --path", p.options.Subresource)
}

// about tells whether a 404 or 409 is the server's word about the object.
func (p *pass) about(err error, object *metav1.PartialObjectMetadata) bool {
	return cluster.AboutObject(err, p.objects.Resource().Resource, object.Name)
}

// maxGivenUp are the objects that an adaptive pass gives up on before it ends.
const maxGivenUp = 16

// giveUp decides whether one object is in trouble, or the server.
func (p *pass) giveUp(object *metav1.PartialObjectMetadata, err *gaveUpError) {
	// Without any answer since the first attempt, going on would mean to wait as
	// long for each of the objects that are left. So would many objects that are
	// told to come back later again and again.
	if p.answered.Load() < err.began.UnixNano() || p.givenUp.Add(1) >= int64(cmp.Or(p.options.Concurrency, maxGivenUp)) {
		p.stop(err)
		return
	}
	p.count(object, OutcomeFailed, err)
}

func objectsName(objects cluster.Objects) string {
	resource := objects.Resource()
	return resource.GroupResource().String() + " at " + resource.Version
}

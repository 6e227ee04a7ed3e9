// Package conversion finds out what a conversion, or a rewrite, does to the
// objects of a CRD, before it is done.
package conversion

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/schema"
)

const (
	// defaultSample is how many objects a rehearsal takes at most.
	defaultSample = 1000
	// defaultConcurrency is that of the engine that rewrites the objects.
	defaultConcurrency = 16
	// maxRefused is how many refused objects are listed; all are counted.
	maxRefused = 100
	// maxExamples is how many objects are named for each path.
	maxExamples = 3
	// conflictTries is how often an object is rehearsed that somebody else keeps
	// writing.
	conflictTries = 5
)

// RehearseOptions says what to rehearse.
type RehearseOptions struct {
	Resource kschema.GroupResource
	// RequestVersion is the served version whose endpoint the migration will use:
	// admission and validation are those of the version of the request (fact 12).
	// Before the storage version changes, it has to be the future one, because a
	// server drops then, at the request, what it will drop later, when it stores.
	RequestVersion string
	// CompareVersions are the served versions at which objects show what is
	// stored. With None, reading an object leaves out what the version of the
	// request does not know, even if it is stored, so that nothing seems to be
	// lost at the storage version itself: name the versions at which objects are
	// persisted, the current storage version first. Without any, it is the
	// RequestVersion. The first one is also where the objects are listed.
	CompareVersions []string
	// Strategy is the CRD's conversion strategy. With None, the contents at the
	// CompareVersions and after the rewrite must be the same, but for apiVersion.
	// With Webhook they differ by intent, and only two forms of the RequestVersion
	// are compared: that shows what is lost from there to the storage version and
	// back, but not what the first conversion lost; round trips find that.
	Strategy apiextensionsv1.ConversionStrategyType
	// Schema is that of the first of CompareVersions. It tells maps from fields
	// in the paths of the result; without it, keys of maps are told.
	Schema *schema.Schema
	// Subresource is what the migration will send its patches through: "status" or
	// nothing.
	Subresource string
	// Namespace, LabelSelector and Filter narrow what is rehearsed, as they narrow
	// the migration; nothing else is counted then, either.
	Namespace     string
	LabelSelector string
	Filter        func(namespace, name string) bool
	// Named are the objects to rehearse, if they are known: nothing is listed then, and
	// nothing else is counted. Nil means all that there are.
	Named []cluster.ObjectID
	// RefusedThrough is a served version that the migration rewrites those objects
	// through which the schema of the RequestVersion refuses; empty for none. Offer
	// are the versions that it might name, to be told by the result.
	RefusedThrough string
	Offer          []string
	// Sample is the number of objects to take where there are more; 0 means 1,000.
	// Every takes all of them: where the schemas do not prove that no field is lost,
	// a sample proves nothing about the other objects.
	Sample int
	Every  bool
	// Concurrency is the number of objects in work at a time; 0 means 16.
	Concurrency int
	// FieldManager of the dry runs.
	FieldManager string
	// Progress, if not nil, is called after each object of the sample, one call at
	// a time; total is the number of objects in the sample.
	Progress func(done, total int64)
}

// Rehearse finds out what rewriting the objects of a resource would do: it sends
// the no-op patch that the migration sends, as a server dry run, for all objects
// or, unless Every is set, for an evenly spread sample of them, and compares the answers with the
// objects as they are now. Nothing is written. 404 is an outcome: the object is
// gone. 409, too: it is rehearsed again, and if it is never left alone, it does
// not count as rehearsed.
//
// An error means that the rehearsal could not be made; an object that the server
// refuses is no error.
func Rehearse(ctx context.Context, c cluster.Interface, options RehearseOptions) (*v1alpha1.Rehearsal, error) {
	r := newRehearsal(c, options)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(r.options.Concurrency)
	listed := r.each(groupCtx, func(p place, of int64) {
		group.Go(func() error {
			result, err := r.object(groupCtx, p.NamespacedName)
			if err == nil {
				err = r.detour(groupCtx, p.NamespacedName, &result)
			}
			if err != nil {
				return fmt.Errorf("rehearsing %s: %w", p, err)
			}
			r.record(p, result, of)
			return nil
		})
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if listed != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("choosing the objects to rehearse: %w", listed)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("rehearsing: %w", context.Cause(ctx))
	}
	return r.report(), nil
}

// each calls begin for each object to rehearse, and how many there are as far as is
// known. All of them are not held on to.
func (r *rehearsal) each(ctx context.Context, begin func(p place, of int64)) error {
	if r.options.Every && r.options.Named == nil {
		return r.atOneOf(func(list cluster.Objects) error {
			return r.pages(ctx, list, func(key types.NamespacedName, of int64) {
				p := place{NamespacedName: key, index: r.listed}
				r.listed++
				r.expect(1)
				begin(p, of)
			})
		})
	}
	sample, err := r.choose(ctx)
	for _, p := range sample {
		if ctx.Err() != nil {
			break
		}
		begin(p, int64(len(sample)))
	}
	return err
}

// atOneOf lists the objects at the first version that they can be listed at: one that
// cannot be converted fails the whole list. What was begun by then is not begun again.
func (r *rehearsal) atOneOf(do func(list cluster.Objects) error) error {
	var first error
	for _, list := range r.lists {
		err := do(list)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
		if r.listed > 0 || cluster.Explain(err).Reason != cluster.ReasonConversionFailed || cluster.ConverterDown(err) {
			break
		}
	}
	return first
}

// pages lists the objects that the options select.
func (r *rehearsal) pages(ctx context.Context, list cluster.Objects, visit func(key types.NamespacedName, of int64)) error {
	var listed int64
	options := cluster.PageOptions{Namespace: r.options.Namespace, LabelSelector: r.options.LabelSelector}
	return cluster.EachPage(ctx, list, options, func(page *metav1.PartialObjectMetadataList) error {
		listed += int64(len(page.Items))
		of := listed
		if page.RemainingItemCount != nil {
			of += *page.RemainingItemCount
		}
		for i := range page.Items {
			key := types.NamespacedName{Namespace: page.Items[i].Namespace, Name: page.Items[i].Name}
			if r.options.Filter == nil || r.options.Filter(key.Namespace, key.Name) {
				visit(key, of)
			}
		}
		return ctx.Err()
	})
}

// expect counts objects among those that there are.
func (r *rehearsal) expect(n int64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.total += n
}

// choose lists the objects and returns the sample.
func (r *rehearsal) choose(ctx context.Context) ([]place, error) {
	if r.options.Named != nil {
		return r.chooseNamed(), nil
	}
	var sample []place
	err := r.atOneOf(func(list cluster.Objects) error {
		sampler := newSampler(r.options.Sample)
		if err := r.pages(ctx, list, func(key types.NamespacedName, _ int64) { sampler.add(key) }); err != nil {
			return err
		}
		r.expect(sampler.total)
		sample = sampler.sample()
		return nil
	})
	return sample, err
}

// chooseNamed returns the sample of the objects that are named, or all of them.
func (r *rehearsal) chooseNamed() []place {
	sampler := samplerOf(r.options.Named, r.options.Every, r.options.Sample)
	r.expect(sampler.total)
	return sampler.sample()
}

type rehearsal struct {
	options RehearseOptions
	// uids are those of the objects that are named: what has their name now may be
	// another one, which nobody named.
	uids map[types.NamespacedName]types.UID
	// lists are where the objects are listed: as they are persisted first, because
	// one object that a webhook cannot convert fails the whole LIST at another
	// version. request is the endpoint of the dry runs, compare those of the reads.
	lists   []cluster.Objects
	request cluster.Objects
	compare []cluster.Objects
	detours []*Detour

	// listed counts the objects so far, where all are rehearsed.
	listed int64

	mutex    sync.Mutex
	done     int64
	total    int64
	sampled  int64
	refused  int64
	refusals []refusal // The first of them, in the order of the list.
	findings map[difference]*finding
	// taken are the objects that a detour takes, by its version.
	taken map[string]int64
}

func newRehearsal(c cluster.Interface, options RehearseOptions) *rehearsal {
	options.Sample = cmp.Or(options.Sample, defaultSample)
	options.Concurrency = cmp.Or(options.Concurrency, defaultConcurrency)
	versions := options.CompareVersions
	if len(versions) == 0 {
		versions = []string{options.RequestVersion}
	}
	lists := versions
	if options.Strategy == apiextensionsv1.WebhookConverter {
		versions = []string{options.RequestVersion}
	}
	r := &rehearsal{
		options:  options,
		request:  c.Objects(options.Resource.WithVersion(options.RequestVersion)),
		findings: map[difference]*finding{},
		taken:    map[string]int64{},
	}
	if options.Named != nil {
		r.uids = make(map[types.NamespacedName]types.UID, len(options.Named))
	}
	for _, object := range options.Named {
		r.uids[object.NamespacedName] = object.UID
	}
	if len(options.Offer) > 0 || options.RefusedThrough != "" {
		r.detours = newDetours(c, options)
	}
	for _, version := range lists {
		r.lists = append(r.lists, c.Objects(options.Resource.WithVersion(version)))
	}
	for _, version := range versions {
		r.compare = append(r.compare, c.Objects(options.Resource.WithVersion(version)))
	}
	return r
}

// outcome is what came of one object.
type outcome struct {
	// gone and busy objects are not rehearsed.
	gone, busy bool
	// failure is what err says of the object.
	failure     *v1alpha1.ObjectFailure
	err         error
	differences []difference
	// after is what the server answered, where it did.
	after *unstructured.Unstructured
	// through are the versions by whose detour it can be rewritten.
	through []string
}

func (r *rehearsal) object(ctx context.Context, key types.NamespacedName) (outcome, error) {
	for range conflictTries {
		result, err := r.try(ctx, key)
		if err != nil || !result.busy {
			return result, err
		}
	}
	return outcome{busy: true}, nil
}

// try rehearses an object once. It is busy if it was written between two of the
// requests, whose answers cannot be compared then.
func (r *rehearsal) try(ctx context.Context, key types.NamespacedName) (outcome, error) {
	var before []*unstructured.Unstructured
	for _, endpoint := range r.compare {
		var object *unstructured.Unstructured
		err := cluster.Retry(ctx, func() (err error) {
			object, err = endpoint.Get(ctx, key)
			return err
		})
		if err != nil {
			return r.failed(key, "", err)
		}
		if uid := r.uids[key]; uid != "" && uid != object.GetUID() {
			return outcome{gone: true}, nil
		}
		if len(before) > 0 && object.GetResourceVersion() != before[0].GetResourceVersion() {
			return outcome{busy: true}, nil
		}
		before = append(before, object)
	}
	body, err := noop(before[0].GetResourceVersion())
	if err != nil {
		return outcome{}, err
	}
	var after *unstructured.Unstructured
	err = cluster.Retry(ctx, func() (err error) {
		after, err = r.request.Patch(ctx, key, cluster.PatchRequest{
			Type: types.MergePatchType, Body: body, Subresource: r.options.Subresource,
			DryRun: true, FieldManager: r.options.FieldManager,
		})
		return err
	})
	if err != nil {
		if there, readErr := r.there(ctx, key, before[0].GetUID(), err); there || readErr != nil {
			return outcome{}, errors.Join(err, readErr)
		}
		return r.failed(key, before[0].GetUID(), err)
	}
	return outcome{differences: r.differences(before, after), after: after}, nil
}

// there reports whether an object is there that a subresource is said not to have: a
// server that does not know of the subresource answers with the object's own 404.
func (r *rehearsal) there(ctx context.Context, key types.NamespacedName, uid types.UID, err error) (bool, error) {
	if r.options.Subresource == "" || !apierrors.IsNotFound(err) {
		return false, nil
	}
	var object *unstructured.Unstructured
	err = cluster.Retry(ctx, func() (err error) {
		object, err = r.compare[0].Get(ctx, key)
		return err
	})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && object.GetUID() == uid, err
}

// noop is the body of the patch that the migration sends.
func noop(resourceVersion string) ([]byte, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": resourceVersion}})
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	return body, nil
}

// failed tells what an error says of the object. It returns the error where it
// is no word about the object: the connection was lost, or the whole endpoint is
// not there.
func (r *rehearsal) failed(key types.NamespacedName, uid types.UID, err error) (outcome, error) {
	if cluster.AboutObject(err, r.options.Resource.Resource, key.Name) {
		return outcome{gone: apierrors.IsNotFound(err), busy: apierrors.IsConflict(err)}, nil
	}
	failure := cluster.Explain(err)
	var status apierrors.APIStatus
	if !errors.As(err, &status) || failure.Reason == cluster.ReasonOther && apierrors.IsNotFound(err) {
		return outcome{}, err
	}
	refusal := failure.Object(key, uid)
	return outcome{failure: &refusal, err: err}, nil
}

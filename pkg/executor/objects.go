package executor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/managedfields"
	"github.com/crdver/kubectl-crdver/pkg/plan"
	"github.com/crdver/kubectl-crdver/pkg/schema"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
)

// maxCleanPasses bounds how often managedFields are gone over: writers may put
// an entry back only as long as some server still serves the version.
const maxCleanPasses = 5

// rehearsalInterval is the least time between two words on how far a rehearsal is, as
// a pass has it.
const rehearsalInterval = 100 * time.Millisecond

// barrierTimeout bounds the barrier. It makes dozens of new connections: behind
// a slow link or on a busy server they alone take a minute.
const barrierTimeout = 5 * time.Minute

// objects returns the objects through the step's endpoint, each of which is looked
// at before it is written where the schemas do not prove that no field is lost.
func (r *run) objects() cluster.Objects {
	return storagemigration.Guarded(r.Cluster.Objects(r.resource(r.step.Endpoint)), r.guard)
}

// guards looks at a CRD whose objects the rehearsal went over, and has each object
// looked at again before it is written, if that may lose fields that are not allowed
// to be lost. Versions that are not served any more are left out: nobody writes at
// them, so that what the rehearsal saw is what is there. So are the versions that a
// rescue serves for the rehearsal alone.
func (r *run) guards(c *apiextensionsv1.CustomResourceDefinition, options conversion.RehearseOptions) {
	r.guard = nil
	if r.plan.Intent.Verb == v1alpha1.VerbRescue {
		c = c.DeepCopy()
		for _, version := range lifecycle.Rescued(crd.Live(c)) {
			crd.Live(c).Version(version).Served = false
		}
	}
	if !plan.MayLose(r.plan.Intent, c, options.RequestVersion) {
		return
	}
	options.CompareVersions = conversion.ForMigration(crd.Live(c), options.RequestVersion).CompareVersions
	r.guard = conversion.NewGuard(r.Cluster, options, func(lost []v1alpha1.FieldDifference) []v1alpha1.FieldDifference {
		refused, _ := plan.Lossy(r.plan.Intent, c.Name, lost)
		return refused
	}).Check
}

// passOptions are those of every pass.
func (r *run) passOptions() storagemigration.PassOptions {
	return storagemigration.PassOptions{
		Detour:          r.detour(),
		ListThrough:     r.listThrough(),
		Namespace:       r.plan.Intent.Namespace,
		LabelSelector:   r.plan.Intent.Selector,
		Filter:          r.shard(),
		Subresource:     r.plan.Intent.Path,
		Concurrency:     r.Concurrency,
		MaxConcurrency:  r.MaxConcurrency,
		QPS:             float32(r.QPS),
		MaxBandwidth:    r.MaxBandwidth,
		FieldManager:    r.FieldManager,
		Progress:        r.progress,
		WebhookPatience: r.WebhookPatience,
		Notice:          func(text string) { r.warn("%s", text) },
		Failed:          r.failed,
	}
}

func (r *run) progress(p v1alpha1.Progress) {
	if r.step.Action == v1alpha1.ActionMigrate {
		r.holder.count(p)
	}
	r.emit(v1alpha1.EventProgress, func(e *v1alpha1.Event) { e.Progress = &p })
}

// rehearse dry-runs the rewrite on live objects. The plan's own rehearsal may be
// old, or could not be made because the version was not served yet.
func (r *run) rehearse(ctx context.Context) error {
	found, err := r.readCRD(ctx)
	if err != nil {
		return err
	}
	options := conversion.ForMigration(crd.CRD{CustomResourceDefinition: found}, r.step.Endpoint)
	options.Every = options.Every || r.plan.Intent.RehearseAll
	options.Concurrency, options.FieldManager, options.Subresource = r.Concurrency, r.FieldManager, r.plan.Intent.Path
	options.Progress = r.rehearsing()
	options.Namespace, options.LabelSelector = r.plan.Intent.Namespace, r.plan.Intent.Selector
	if options.Filter, err = plan.InShard(r.plan.Intent); err != nil {
		return fmt.Errorf("rehearsing the rewrite: %w", err)
	}
	options.RefusedThrough = r.plan.Intent.RefusedThrough
	if r.plan.Intent.Retry != nil {
		options.Named = append([]cluster.ObjectID{}, r.Retry...)
	}
	r.rehearsal, r.served = &options, crd.Live(found).Served()
	r.guards(found, options)
	result, err := conversion.Rehearse(ctx, r.Cluster, options)
	if err != nil {
		return fmt.Errorf("rehearsing the rewrite: %w", err)
	}
	if err := clean(r.plan.Intent, r.expected.Name, result); err != nil {
		return err
	}
	if r.plan.Intent.Verb == v1alpha1.VerbRescue {
		return r.roundTripRescued(ctx, crd.Live(found))
	}
	return r.roundTrip(ctx, crd.Live(found))
}

// rehearsing returns what tells how far a rehearsal is: it is called after each object,
// one call at a time. How many there are in all may not be known, which is 0.
func (r *run) rehearsing() func(done, total int64) {
	var told time.Time
	pass, before := 1, int64(0)
	return func(done, total int64) {
		now := time.Now()
		if done < before {
			pass++ // It goes over the objects again, for the conversion webhook.
		}
		before = done
		if (total == 0 || done < total) && now.Sub(told) < rehearsalInterval {
			return
		}
		told = now
		r.progress(v1alpha1.Progress{Counts: v1alpha1.ObjectCounts{Listed: done, Current: done}, Total: total, Pass: pass})
	}
}

// clean refuses to go on where a rehearsal found something.
func clean(intent v1alpha1.Intent, crd string, result *v1alpha1.Rehearsal) error {
	lost, _ := plan.Lossy(intent, crd, result.Lost)
	switch {
	case result.RefusedCount > 0 && intent.Retry == nil: // To find out is what a retry is for.
		f := result.Refused[0]
		return refusef("the server would refuse to rewrite %d of %s, the first is %s: %s",
			result.RefusedCount, english.Plural(result.Sampled, "object"), name(f), f.Message)
	case len(lost) > 0:
		d := lost[0]
		return refusef("a rewrite would lose or change %s, the first is %s in %s",
			english.Plural(len(lost), "field path"), d.Path, english.Plural(d.Objects, "object"))
	}
	return nil
}

func name(f v1alpha1.ObjectFailure) string { return objectName(f.Namespace, f.Name) }

// objectName returns namespace/name, or the name alone of an object without one.
func objectName(namespace, name string) string {
	return strings.TrimPrefix(namespace+"/"+name, "/")
}

// barrier waits until every server persists at the storage version, and takes
// down what the CRD is like then: only that may be trimmed later (rule 5).
func (r *run) barrier(ctx context.Context) error {
	if _, err := r.current(ctx, r.plan.Steps[r.number-1:]); err != nil {
		return err
	}
	c := r.expected
	if c.StorageVersion != r.step.Version {
		return refusef("the storage version is %s, not %s", c.StorageVersion, r.step.Version)
	}
	options := storagemigration.BarrierOptions{
		Resource: r.resource(r.step.Endpoint), FieldManager: r.FieldManager, Timeout: barrierTimeout,
		Subresource: r.plan.Intent.Path, Guard: r.guard,
		Namespace: r.plan.Intent.Namespace, LabelSelector: r.plan.Intent.Selector, Filter: r.shard(),
		Rewritten: func(key types.NamespacedName) { r.canaries[key] = true },
	}
	r.canaries = map[types.NamespacedName]bool{}
	if r.step.Endpoint == c.StorageVersion {
		// Discovery gives the hash only as long as the storage version is served.
		options.ExpectedHash = storagemigration.StorageVersionHash(c.Group, c.StorageVersion, c.Kind)
	}
	err := storagemigration.Barrier(ctx, r.Cluster, options)
	if err != nil {
		return r.unlessGone(ctx, fmt.Errorf("waiting until the servers persist at %s: %w", c.StorageVersion, err))
	}
	r.baseline = &c
	return nil
}

// migrate rewrites the objects. One that fails does not keep the rest from
// being rewritten; it keeps the plan from going on.
func (r *run) migrate(ctx context.Context, result *v1alpha1.StepReport) error {
	if err := r.unchanged(ctx); err != nil {
		return err
	}
	ctx, end := r.steady(ctx)
	defer end()
	if r.plan.Intent.Retry != nil {
		return r.retry(ctx, result)
	}
	options := r.passOptions()
	options.NamespacesFirst, options.Canaries = r.plan.Intent.NamespacesFirst, r.canaries
	if through := r.holder.begin(*r.baseline, r.step.Endpoint); r.whole() {
		options.SkipThrough, options.Watermark = through, r.holder.reached
	}
	pass, err := storagemigration.Pass(ctx, r.objects(), options)
	result.Objects, result.Failures, result.FailureGroups = &pass.Counts, pass.Failures, pass.Groups
	if err != nil {
		return fmt.Errorf("rewriting the objects: %w", err)
	}
	err = r.unlessGone(ctx, failures(pass.Counts, pass.Failures))
	if pass.HeldBack && refusal(err) == nil {
		return &partialError{fmt.Sprintf("an object in %s failed, and the rest was left alone: %s",
			strings.Join(r.plan.Intent.NamespacesFirst, ", "), err)}
	}
	return err
}

// whole reports whether the pass goes over all objects in the order of the list:
// only then "all up to here" says anything to a later run.
func (r *run) whole() bool {
	return !plan.Narrowed(r.plan.Intent) && len(r.plan.Intent.NamespacesFirst) == 0
}

// verifyPasses goes over the objects until a whole pass finds every one of them
// current, and keeps that as the proof.
func (r *run) verifyPasses(ctx context.Context, result *v1alpha1.StepReport) error {
	if err := r.unchanged(ctx); err != nil {
		return err
	}
	if !r.verifiesAll() {
		return r.verifySample(ctx, result)
	}
	steady, end := r.steady(ctx)
	defer end()
	found, err := storagemigration.Verify(steady, r.objects(), storagemigration.VerifyOptions{
		PassOptions: r.passOptions(), NotBefore: r.notBefore(),
	})
	result.Objects, result.Failures, result.FailureGroups = &found.Evidence.Objects, found.Last.Failures, found.Last.Groups
	if err != nil {
		return fmt.Errorf("verifying the objects: %w", err)
	}
	if err := r.unlessGone(ctx, failures(found.Last.Counts, found.Last.Failures)); err != nil {
		return err
	}
	// The proof is about the CRD as it was all the time.
	if err := r.unchanged(ctx); err != nil {
		return err
	}
	evidence := found.Evidence
	evidence.StorageVersion, evidence.Generation, evidence.At = r.baseline.StorageVersion, r.baseline.Generation, *r.time()
	r.verified = &evidence
	if !evidence.Complete {
		return &partialError{fmt.Sprintf("no proof after %d passes: %s", evidence.Passes, found.Reason)}
	}
	return nil
}

// unchanged makes sure that the CRD is what it was when the barrier was passed.
func (r *run) unchanged(ctx context.Context) error {
	if r.baseline == nil {
		return refusef("the barrier was not passed in this run")
	}
	_, err := r.current(ctx, r.plan.Steps[r.number-1:])
	return err
}

// cleanManagedFields moves the entries that name the retired version, until a
// whole pass finds none (fact 5).
func (r *run) cleanManagedFields(ctx context.Context, result *v1alpha1.StepReport) error {
	if err := r.awaitWrites(ctx); err != nil {
		return err
	}
	found, err := r.current(ctx, r.plan.Steps[r.number-1:])
	if err != nil {
		return err
	}
	c := crd.CRD{CustomResourceDefinition: found}
	if v := c.Version(r.step.Version); v != nil && v.Served {
		return refusef("%s is served: new managedFields entries would name it", r.step.Version)
	}
	target, err := schema.ForVersion(found, c.StorageVersion())
	if err != nil {
		return fmt.Errorf("reading the schema of %s: %w", c.StorageVersion(), err)
	}
	from, to := c.Spec.Group+"/"+r.step.Version, c.Spec.Group+"/"+c.StorageVersion()
	gone := func(apiVersion string) bool {
		group, version, _ := strings.Cut(apiVersion, "/")
		return group == c.Spec.Group && c.Version(version) == nil
	}
	options := r.passOptions()
	// The server answers 200 to managedFields in a patch of the status, and keeps
	// those that it has.
	options.Subresource = ""
	var total v1alpha1.ObjectCounts
	result.Objects = &total
	for number := 1; number <= maxCleanPasses; number++ {
		// The server answers 200 and keeps the list as it was when it cannot use
		// another entry of it: one of a version that is gone, or, with strategy
		// None, one that no longer fits the object. So what counts is that no
		// object has an entry to move, and a later pass moves such others too.
		var left atomic.Int64
		stale := func(apiVersion string) bool {
			return apiVersion == from || gone(apiVersion) || number > 1 && apiVersion != to
		}
		options.Number = number
		options.Patch = func(object *metav1.PartialObjectMetadata) ([]byte, bool, error) {
			if !slices.ContainsFunc(object.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
				return entry.APIVersion == from || gone(entry.APIVersion)
			}) {
				return nil, true, nil
			}
			left.Add(1)
			body, needed, err := managedfields.PatchAll(object, stale, to, target.Knows)
			return body, !needed, err
		}
		pass, err := storagemigration.Pass(ctx, r.objects(), options)
		rewritten, retries := total.Rewritten, total.Retries
		total = pass.Counts
		// What an earlier pass rewrote this one found current.
		total.Current = max(0, total.Current-rewritten)
		total.Rewritten, total.Retries = total.Rewritten+rewritten, total.Retries+retries
		result.Failures, result.FailureGroups = pass.Failures, pass.Groups
		if err != nil {
			return fmt.Errorf("moving managedFields entries: %w", err)
		}
		if err := failures(pass.Counts, pass.Failures); err != nil {
			return err
		}
		if pass.Complete && left.Load() == 0 {
			r.cleaned = true
			none := int64(0)
			if r.verified != nil {
				r.verified.ManagedFields = &none
			}
			result.Message = fmt.Sprintf("no managedFields entry names %s", r.step.Version)
			return nil
		}
	}
	return &partialError{fmt.Sprintf("after %d passes there are still managedFields entries that name %s", maxCleanPasses, r.step.Version)}
}

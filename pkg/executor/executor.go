// Package executor runs a Plan: it checks each step's preconditions again,
// patches, verifies, and stops where the world is not as the plan expects. It
// is the only package that writes to a cluster. It tells what happens in
// Events and returns a Report.
package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
)

// Options is what an execution needs beside the plan.
type Options struct {
	Cluster      cluster.Interface
	FieldManager string
	// Concurrency is the number of objects rewritten at a time; 0 lets the engine
	// find out how many the server can do with, up to MaxConcurrency, whose 0 means
	// 128.
	Concurrency    int
	MaxConcurrency int
	// MaxBandwidth limits the bytes per second of the requests for objects, sent
	// and received; 0 means no limit.
	MaxBandwidth int64
	// QPS limits the requests for objects per second; 0 means no limit.
	QPS float64
	// Settle is how long the server may take to show a change of the CRD; 0 means 30
	// seconds.
	Settle time.Duration
	// WebhookPatience is how long the rewriting of objects waits for a conversion
	// webhook that does not answer; 0 means three minutes.
	WebhookPatience time.Duration
	// Stored reads from a running etcd what it holds of the CRD's objects, before
	// anything is trimmed or removed. It is needed for plans with EtcdEndpoints in
	// their intent; nil for no etcd.
	Stored func(ctx context.Context) (*lifecycle.Stored, error)
	// Replan makes the plan for the same intent again, from the CRD as it is
	// now. It is asked when somebody else changed the CRD meanwhile (rule 4).
	Replan func(ctx context.Context) (v1alpha1.Plan, error)
	// Confirm asks before a step that cannot be undone; nil means yes.
	Confirm func(ctx context.Context, step v1alpha1.Step) (bool, error)
	// Events is told what happens; nil means nobody listens.
	Events func(v1alpha1.Event)
	// Failed is told of each object that is refused or fails, with the step. It
	// is called from several goroutines. Nil means nobody.
	Failed func(step string, failure v1alpha1.ObjectFailure)
	// Retry are the objects that a plan with Intent.Retry sends again.
	Retry []cluster.ObjectID
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Resume is the command that continues after a stop.
	Resume string
	// Gates are asked before a version is no longer served.
	Gates Gates
	// Hold says as whom the CRD is held while its objects are rewritten; nil means
	// that it is not.
	Hold *HoldOptions
}

// RefusedError says that a precondition or a gate did not hold: the step was
// not taken.
type RefusedError struct{ Message string }

// Error returns the message.
func (e *RefusedError) Error() string { return e.Message }

func refusef(format string, args ...any) error {
	return &RefusedError{Message: fmt.Sprintf(format, args...)}
}

// partialError says that some objects failed.
type partialError struct{ message string }

func (e *partialError) Error() string { return e.message }

// run is one execution.
type run struct {
	Options
	plan   v1alpha1.Plan
	report *v1alpha1.Report

	// expected is the CRD as the last step left it, or as the plan found it.
	expected v1alpha1.CRDIdentity
	// baseline is the CRD as it was when the barrier was passed: what is
	// trimmed later is what was migrated from there (rule 5).
	baseline *v1alpha1.CRDIdentity
	// canaries are the objects that the barrier rewrote.
	canaries map[types.NamespacedName]bool
	// served are the versions that were served when the rewrite was rehearsed.
	served []string
	// rehearsal is how the rewrite was rehearsed; nil before.
	guard     storagemigration.Guard
	rehearsal *conversion.RehearseOptions
	// verified is the proof of this run that no object is stored at another
	// version (rule 3), and cleaned that no managedFields entry is left.
	verified *v1alpha1.Evidence
	cleaned  bool
	// restored is how often the server's trim was put right.
	restored restored
	// versionsChanged is when spec.versions was last changed: by this run, or before it.
	versionsChanged time.Time
	// removed says that the version of the plan is not in spec.versions any more.
	removed bool
	// holder keeps other runs away; nil where the CRD is not held.
	holder *holder
	// marking is the brownout that the last patch began, or tried to, and index where
	// its version was.
	marking *v1alpha1.Brownout
	index   int
	// step is the step being run, number its place from 1.
	step   *v1alpha1.Step
	number int
}

// Run executes a plan. The report is complete whatever the error: an error
// only says why the run ended early.
func Run(ctx context.Context, plan v1alpha1.Plan, options Options) (v1alpha1.Report, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Events == nil {
		options.Events = func(v1alpha1.Event) {}
	}
	r := &run{Options: options, plan: plan, expected: plan.Target.CRD}
	r.report = newReport(plan, r.time())
	r.emit(v1alpha1.EventPlanStarted, func(e *v1alpha1.Event) { e.Title = plan.Name })
	err := r.run(ctx)
	r.finish(ctx, err)
	return *r.report, err
}

func (r *run) run(ctx context.Context) error {
	if !r.plan.Applyable {
		return r.blocked()
	}
	if len(r.plan.Steps) == 0 {
		return nil
	}
	if err := r.etcdGiven(); err != nil {
		return err
	}
	// Whoever made the plan read the CRD a moment ago, or a week ago for apply -f.
	found, err := r.current(ctx, r.plan.Steps)
	if err != nil {
		return err
	}
	if r.awaited() {
		r.versionsChanged = r.changed(ctx, found)
	}
	held, release, err := r.acquire(ctx, found)
	if err != nil {
		return err
	}
	err = r.runSteps(held)
	release(err)
	return err
}

func (r *run) runSteps(ctx context.Context) error {
	for i := range r.plan.Steps {
		r.step, r.number = &r.plan.Steps[i], i+1
		if err := takenOver(ctx, ctx.Err()); err != nil {
			return fmt.Errorf("before the step %s: %w", r.step.ID, err)
		}
		if err := r.runStep(ctx, r.plan.Steps[i:]); err != nil {
			return err
		}
	}
	return nil
}

// runStep runs the first of the steps that are left.
func (r *run) runStep(ctx context.Context, left []v1alpha1.Step) error {
	result := &r.report.Steps[r.number-1]
	result.StartedAt = r.time()
	r.emit(v1alpha1.EventStepStarted, nil)
	err := takenOver(ctx, r.take(ctx, left, result))
	result.FinishedAt = r.time()
	result.Outcome = v1alpha1.OutcomeDone
	if err != nil {
		result.Outcome = outcomeOf(ctx, err)
		result.Message = words(ctx, err)
	}
	r.emit(v1alpha1.EventStepFinished, func(e *v1alpha1.Event) {
		e.Outcome, e.Message = result.Outcome, result.Message
		if result.Objects != nil {
			e.Progress = &v1alpha1.Progress{Counts: *result.Objects, Total: result.Objects.Listed}
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w", r.step.ID, err)
	}
	return nil
}

// take does what the step's action says.
func (r *run) take(ctx context.Context, left []v1alpha1.Step, result *v1alpha1.StepReport) error {
	if !r.step.Reversible && r.Confirm != nil {
		yes, err := r.Confirm(ctx, *r.step)
		if err != nil {
			return fmt.Errorf("asking before %s: %w", r.step.ID, err)
		}
		if !yes {
			return refusef("declined; nothing was changed by this step")
		}
	}
	switch r.step.Action {
	case v1alpha1.ActionRehearse:
		return r.stopServing(ctx, left, r.rehearse(ctx))
	case v1alpha1.ActionBarrier:
		return r.barrier(ctx)
	case v1alpha1.ActionMigrate:
		return r.migrate(ctx, result)
	case v1alpha1.ActionWaitForSVM:
		return r.waitForSVMs(ctx, result)
	case v1alpha1.ActionInTreeMigrate:
		return r.inTreeMigrate(ctx, result)
	case v1alpha1.ActionDeleteSVM:
		return r.deleteSVMs(ctx, result)
	case v1alpha1.ActionPutBack:
		return r.putBackStored(ctx, left)
	case v1alpha1.ActionVerify:
		return r.verifyPasses(ctx, result)
	case v1alpha1.ActionCleanManagedFields:
		return r.cleanManagedFields(ctx, result)
	case v1alpha1.ActionTrim:
		return r.trim(ctx, left)
	case v1alpha1.ActionRecord:
		return r.record(ctx, left)
	case v1alpha1.ActionListStored:
		return r.listStored(ctx, left)
	case v1alpha1.ActionUnserve:
		return r.unserve(ctx, left, result)
	case v1alpha1.ActionSoak:
		return r.soak(ctx, left, result)
	case v1alpha1.ActionBrownout:
		return r.brownout(ctx, left, result)
	case v1alpha1.ActionClear:
		_, err := r.patchCRD(ctx, left)
		return err
	case v1alpha1.ActionRemove:
		return r.remove(ctx, left)
	case v1alpha1.ActionAdd, v1alpha1.ActionServe, v1alpha1.ActionSetStorage,
		v1alpha1.ActionDeprecate, v1alpha1.ActionUndeprecate, v1alpha1.ActionDeprecateOlder:
		after, err := r.patchCRD(ctx, left)
		if err != nil {
			return err
		}
		return r.stopServing(ctx, left, r.checkSpec(ctx, after, result))
	}
	return fmt.Errorf("unknown action %q: the plan was made by another version of this tool", r.step.Action)
}

// time returns the clock as an API time, in UTC and whole seconds.
func (r *run) time() *metav1.Time {
	now := metav1.NewTime(r.Now().UTC().Truncate(time.Second))
	return &now
}

// emit tells an event.
func (r *run) emit(kind v1alpha1.EventType, fill func(*v1alpha1.Event)) {
	event := v1alpha1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.KindEvent},
		Type:     kind,
		Time:     *r.time(),
		CRD:      r.plan.Target.CRD.Name,
	}
	if r.step != nil && kind != v1alpha1.EventPlanStarted && kind != v1alpha1.EventPlanFinished {
		event.Step, event.StepNumber, event.StepTotal = r.step.ID, r.number, len(r.plan.Steps)
		event.Title = r.step.Title
	}
	if fill != nil {
		fill(&event)
	}
	r.Events(event)
}

// warn tells something that does not end the run.
func (r *run) warn(format string, args ...any) {
	r.emit(v1alpha1.EventWarning, func(e *v1alpha1.Event) { e.Message = fmt.Sprintf(format, args...) })
}

// outcomeOf returns the outcome that an error stands for.
func outcomeOf(ctx context.Context, err error) v1alpha1.Outcome {
	var refused *RefusedError
	var partial *partialError
	var down *storagemigration.ConverterDownError
	switch {
	case err == nil:
		return v1alpha1.OutcomeDone
	case errors.As(err, &refused):
		return v1alpha1.OutcomeRefused
	case errors.As(err, &partial), errors.As(err, &down):
		return v1alpha1.OutcomePartial
	case ctx.Err() != nil, errors.Is(err, context.Canceled):
		return v1alpha1.OutcomeInterrupted
	default:
		return v1alpha1.OutcomeFailed
	}
}

// identify returns what counts of a CRD.
func identify(c *apiextensionsv1.CustomResourceDefinition) v1alpha1.CRDIdentity {
	id := v1alpha1.CRDIdentity{
		Name: c.Name, UID: string(c.UID), ResourceVersion: c.ResourceVersion, Generation: c.Generation,
		Group: c.Spec.Group, Kind: c.Spec.Names.Kind, Resource: c.Spec.Names.Plural, Scope: string(c.Spec.Scope),
		StoredVersions: c.Status.StoredVersions,
	}
	for _, v := range c.Spec.Versions {
		if v.Storage {
			id.StorageVersion = v.Name
		}
	}
	return id
}

package executor

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/plan"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// Gates is what the executor asks, and tells, around ending the service of a version.
type Gates struct {
	// Usage looks who uses the version of the plan; nil means that nobody asks.
	Usage func(ctx context.Context) (*v1alpha1.VersionUsage, error)
	// Requests returns the requests at the version during some times of the API server
	// that failed, from audit logs, and what of these could not be read; nil if there
	// are none to read.
	Requests func(ctx context.Context, during []usage.Span) ([]v1alpha1.UsageEvidence, []string, error)
	// Time is the clock that every machine goes by, that of the API server; nil
	// means the clock of this one.
	Time func(ctx context.Context) (time.Time, error)
	// By and Process say who begins a soak or a brownout.
	By      string
	Process *v1alpha1.HoldProcess
	// Back is the command that serves the version again, and BackRemoved the one
	// that brings it back once it is removed.
	Back, BackRemoved string
}

// serverTime is the time that is written down for other machines.
func (r *run) serverTime(ctx context.Context) (time.Time, error) {
	if r.Gates.Time == nil {
		return r.Now(), nil
	}
	now, err := r.Gates.Time(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the time of the API server: %w", err)
	}
	return now.UTC().Truncate(time.Second), nil
}

// marked returns the step's patch with the annotation that the step sets in the CRD
// that was just read.
func (r *run) marked(ctx context.Context, read *apiextensionsv1.CustomResourceDefinition) (v1alpha1.Patch, error) {
	var patch v1alpha1.Patch
	if r.step.Patch != nil {
		patch = *r.step.Patch.DeepCopy()
	}
	if r.step.Marks == "" {
		return patch, nil
	}
	var now time.Time
	err := cluster.RetryFor(ctx, crdPatience, func() (err error) {
		now, err = r.serverTime(ctx)
		return err
	})
	if err != nil {
		return patch, err
	}
	text := ""
	switch r.step.Marks {
	case lifecycle.SoakAnnotation:
		soak := plan.NewSoak(r.step.Version, *r.step.Soak, now)
		soak.By, soak.Manager = r.Gates.By, r.fieldManager()
		r.report.After = soak.Until.DeepCopy()
		text = lifecycle.MarkText(soak)
	case lifecycle.BrownoutAnnotation:
		r.marking = &v1alpha1.Brownout{
			Version: r.step.Version, Started: metav1.Time{Time: now}, Until: metav1.Time{Time: now.Add(r.plan.Intent.Brownout.For.Duration)},
			By: r.Gates.By, Process: r.Gates.Process, ID: string(uuid.NewUUID()),
		}
		text = lifecycle.MarkText(r.marking)
	case lifecycle.VerifiedAnnotation:
		text = lifecycle.MarkText(lifecycle.NewVerified(crd.Live(read), r.Gates.By, r.fieldManager(), now))
	default:
		return patch, fmt.Errorf("unknown annotation %q: the plan was made by another version of this tool", r.step.Marks)
	}
	patch.Type = "json"
	patch.Body = append(patch.Body, plan.Annotate(r.step.Marks, text))
	return patch, nil
}

// soak notes since when to wait, if no step before has, and ends the run.
func (r *run) soak(ctx context.Context, left []v1alpha1.Step, result *v1alpha1.StepReport) error {
	if r.step.Marks != "" {
		if _, err := r.patchCRD(ctx, left); err != nil {
			return err
		}
	}
	found, err := r.current(ctx, left)
	if err != nil {
		return err
	}
	soak, err := lifecycle.ReadSoak(crd.CRD{CustomResourceDefinition: found})
	if err != nil {
		return refusef("%s", err)
	}
	if soak == nil || soak.Version != r.step.Version || soak.Phase != r.step.Soak.Phase {
		return refusef("the annotation %s was removed or is another one by now; run again to plan from here", lifecycle.SoakAnnotation)
	}
	r.report.After = soak.Until.DeepCopy()
	result.Message = fmt.Sprintf("%s since %s, by %s; until %s", soak.Phase,
		soak.Since.UTC().Format(time.RFC3339), soak.By, soak.Until.UTC().Format(time.RFC3339))
	return nil
}

// soaked makes sure, immediately before a step, that the soak which comes before it
// is over: another run may have started it anew since the plan was made.
func (r *run) soaked(ctx context.Context, c *apiextensionsv1.CustomResourceDefinition, phase v1alpha1.SoakPhase) error {
	if r.plan.Intent.Verb != v1alpha1.VerbRetire {
		return nil
	}
	soak, err := lifecycle.ReadSoak(crd.CRD{CustomResourceDefinition: c})
	switch {
	case err != nil:
		return refusef("%s", err)
	case soak == nil && r.plan.Intent.Soak == nil:
		return nil
	case soak == nil || soak.Version != r.step.Version || soak.Phase != phase:
		return refusef("the soak after %s was %s ended by somebody else; run again to plan from here", r.step.Version, phase)
	}
	now, err := r.serverTime(ctx)
	if err != nil {
		return err
	}
	if now.Before(soak.Until.Time) {
		return refusef("%s soaks until %s", r.step.Version, soak.Until.UTC().Format(time.RFC3339))
	}
	return nil
}

// checkUse looks, immediately before the service of a version ends, who uses it.
func (r *run) checkUse(ctx context.Context) (note string, err error) {
	if r.Gates.Usage == nil || r.plan.Intent.UsageWindow == nil {
		return "", nil
	}
	found, err := r.Gates.Usage(ctx)
	if err != nil {
		return "", fmt.Errorf("looking who uses %s: %w", r.step.Version, err)
	}
	switch {
	case found.Verdict != v1alpha1.UsageInUse:
		return "", nil
	case r.plan.Intent.AllowInUse:
		return fmt.Sprintf("in use when it ended (--allow-in-use): %s", found.Why), nil
	}
	return "", refusef("%s is in use by now: %s; pass --allow-in-use to go on", r.step.Version, found.Why)
}

// back returns the command that brings the clients of the version back.
func (r *run) back() string {
	done := false
	for i, step := range r.report.Steps {
		if step.Outcome == v1alpha1.OutcomeNotRun {
			continue
		}
		switch r.plan.Steps[i].Action {
		case v1alpha1.ActionRemove:
			if r.removed {
				return r.Gates.BackRemoved
			}
			done = true
		case v1alpha1.ActionDeprecate, v1alpha1.ActionSoak, v1alpha1.ActionUnserve, v1alpha1.ActionBrownout, v1alpha1.ActionMigrate:
			done = true
		default:
		}
	}
	if !done || r.crdGone() {
		return ""
	}
	return r.Gates.Back
}

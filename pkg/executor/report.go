package executor

import (
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// NotRun returns the report of a plan that was not carried out because of why:
// nobody was there to ask, or the answer was no.
func NotRun(ctx context.Context, plan v1alpha1.Plan, why error, now time.Time) v1alpha1.Report {
	r := &run{Options: Options{Now: func() time.Time { return now }, Events: func(v1alpha1.Event) {}}, plan: plan, expected: plan.Target.CRD}
	r.report = newReport(plan, r.time())
	switch {
	case len(plan.Steps) == 0 && plan.Applyable:
		why = nil
	case !plan.Applyable:
		why = r.blocked()
	case ctx.Err() == nil:
		why = &RefusedError{Message: why.Error()}
	}
	r.finish(ctx, why)
	return *r.report
}

// newReport returns the report of a run that has done nothing yet.
func newReport(plan v1alpha1.Plan, now *metav1.Time) *v1alpha1.Report {
	report := &v1alpha1.Report{
		TypeMeta:  metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.KindReport},
		Target:    plan.Target,
		Intent:    plan.Intent,
		StartedAt: *now,
		Steps:     []v1alpha1.StepReport{},
	}
	for _, step := range plan.Steps {
		report.Steps = append(report.Steps, v1alpha1.StepReport{ID: step.ID, Outcome: v1alpha1.OutcomeNotRun})
	}
	return report
}

// blocked returns the refusal of a plan that is blocked, with everything that
// stands in the way.
func (r *run) blocked() error {
	messages := make([]string, 0, len(r.plan.Blockers))
	for _, blocker := range r.plan.Blockers {
		messages = append(messages, blocker.Message)
	}
	return refusef("the plan is blocked: %s", strings.Join(messages, "; "))
}

// words returns what an error says, with the end of ctx in a reader's words.
func words(ctx context.Context, err error) string {
	text := err.Error()
	if ctx.Err() != nil {
		text = cluster.Brief(err, 2)
	}
	text = strings.ReplaceAll(text, "\n", "; ") // Joined errors.
	if ctx.Err() == nil {
		return text
	}
	text = strings.ReplaceAll(text, context.Canceled.Error(), "interrupted")
	return strings.ReplaceAll(text, context.DeadlineExceeded.Error(), "the time was up")
}

// finish completes the report.
func (r *run) finish(ctx context.Context, err error) {
	report := r.report
	report.FinishedAt = *r.time()
	report.Evidence = r.verified
	report.StorageVersion = r.expected.StorageVersion
	report.StoredVersions = slices.Clone(r.expected.StoredVersions)
	switch {
	case err != nil:
		report.Outcome = outcomeOf(ctx, err)
		report.Message = words(ctx, err)
		if !r.crdGone() {
			report.Resume = r.Resume
		}
	case len(r.plan.Steps) == 0:
		report.Outcome = v1alpha1.OutcomeUnchanged
		if !r.plan.Complete {
			report.Resume = r.Resume
		}
	default:
		report.Outcome = v1alpha1.OutcomeDone
		if !r.plan.Complete {
			report.Resume = r.Resume
		}
	}
	report.Back = r.back()
	r.emit(v1alpha1.EventPlanFinished, func(e *v1alpha1.Event) {
		e.Outcome, e.Message = report.Outcome, report.Message
	})
}

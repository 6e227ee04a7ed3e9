package executor

import (
	"context"
	"fmt"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/plan"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
)

// failed passes on an object that was refused or failed.
func (r *run) failed(failure v1alpha1.ObjectFailure) {
	if r.Failed != nil {
		r.Failed(r.step.ID, failure)
	}
}

// failures returns the error for objects that were refused or failed.
func failures(counts v1alpha1.ObjectCounts, failed []v1alpha1.ObjectFailure) error {
	unwritten := storagemigration.Unwritten(counts)
	if unwritten == 0 {
		return nil
	}
	first := ""
	if len(failed) > 0 {
		first = fmt.Sprintf(", the first is %s: %s: %s", name(failed[0]), failed[0].Reason, failed[0].Message)
	}
	return &partialError{fmt.Sprintf("%d of %s could not be rewritten%s", unwritten, english.Plural(counts.Listed, "object"), first)}
}

// retry sends the objects of a failure report again.
func (r *run) retry(ctx context.Context, result *v1alpha1.StepReport) error {
	options := r.passOptions()
	options.Canaries = r.canaries
	pass, err := storagemigration.Pass(ctx, storagemigration.Named(r.objects(), r.Retry), options)
	result.Objects, result.Failures, result.FailureGroups = &pass.Counts, pass.Failures, pass.Groups
	if err != nil {
		return fmt.Errorf("sending the objects again: %w", err)
	}
	return failures(pass.Counts, pass.Failures)
}

// verifiesAll tells whether this run can prove anything: only passes over all
// objects do (rule 3).
func (r *run) verifiesAll() bool {
	return plan.VerifiesAll(r.plan.Intent) && r.plan.Intent.Retry == nil
}

// verifySample looks at some of the objects. It leaves no evidence behind: what
// it finds in order says nothing about the others.
func (r *run) verifySample(ctx context.Context, result *v1alpha1.StepReport) error {
	pass, err := storagemigration.Pass(ctx, storagemigration.Sample(r.objects()), r.passOptions())
	result.Objects, result.Failures, result.FailureGroups = &pass.Counts, pass.Failures, pass.Groups
	if err != nil {
		return fmt.Errorf("verifying a sample: %w", err)
	}
	if err := failures(pass.Counts, pass.Failures); err != nil {
		return err
	}
	if n := pass.Counts.Rewritten; n > 0 {
		return &partialError{fmt.Sprintf("%d of the %s of the sample had to be rewritten again: "+
			"a server still persists at another version, or a webhook changes them with every write", n, english.Plural(pass.Counts.Listed, "object"))}
	}
	result.Message = "a sample, which proves nothing about the other objects"
	return r.unchanged(ctx)
}

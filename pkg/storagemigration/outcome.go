package storagemigration

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// Outcome is what came of an object.
type Outcome string

// The outcomes.
const (
	// OutcomeRewritten means that the patch was stored: the object had been
	// persisted in another form.
	OutcomeRewritten Outcome = "rewritten"
	// OutcomeCurrent means that the server had nothing to store.
	OutcomeCurrent Outcome = "current"
	// OutcomeChanged means that somebody else wrote the object after it was listed.
	OutcomeChanged Outcome = "changed"
	// OutcomeDeleted means that the object was deleted after it was listed.
	OutcomeDeleted Outcome = "deleted"
	// OutcomeRefused means that a known party does not let the object be written.
	OutcomeRefused Outcome = v1alpha1.FailureRefused
	// OutcomeFailed means that the object could not be rewritten for any other
	// reason.
	OutcomeFailed Outcome = v1alpha1.FailureFailed
)

// PassResult is what came of a pass.
type PassResult struct {
	Counts v1alpha1.ObjectCounts
	// Failures are the refused and failed objects, at most v1alpha1.MaxFailures, by
	// name.
	Failures []v1alpha1.ObjectFailure
	// Groups are all refused and failed objects by reason.
	Groups []v1alpha1.FailureGroup
	// Complete says that all pages of all namespaces were seen, without a
	// selector, and that each object has an outcome.
	Complete bool
	// HeldBack says that an object in the namespaces that go first failed, so that
	// the rest was left alone.
	HeldBack bool
	// Rewritten are a few of the rewritten objects.
	Rewritten []types.NamespacedName
}

// Clean tells whether nothing was rewritten and nothing was refused or failed. A
// complete and clean pass after the barrier is the proof that the package comment
// speaks of.
func (r PassResult) Clean() bool { return r.Counts.Rewritten == 0 && Unwritten(r.Counts) == 0 }

func (p *pass) count(object *metav1.PartialObjectMetadata, outcome Outcome, err error) {
	var failure *v1alpha1.ObjectFailure
	if outcome == OutcomeFailed {
		failure = failureOf(object, err)
		outcome = Outcome(failure.Outcome)
	}
	p.mu.Lock()
	counts := &p.result.Counts
	counts.Listed++
	switch outcome {
	case OutcomeRewritten:
		counts.Rewritten++
		if len(p.result.Rewritten) < p.options.Examples {
			p.result.Rewritten = append(p.result.Rewritten, keyOf(object))
		}
	case OutcomeCurrent:
		counts.Current++
	case OutcomeChanged:
		counts.Changed++
	case OutcomeDeleted:
		counts.Deleted++
	case OutcomeRefused:
		counts.Refused++
	case OutcomeFailed:
		counts.Failed++
	}
	if failure != nil {
		p.keep(*failure)
	}
	p.mu.Unlock()
	if failure != nil && p.options.Failed != nil {
		p.options.Failed(*failure)
	}
	if p.options.Observe != nil {
		p.options.Observe(object, outcome)
	}
}

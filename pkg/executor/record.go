package executor

import (
	"context"
	"errors"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// proven reports whether this run has the proof that no object is persisted at
// another version than the storage version (rule 3).
func (r *run) proven() bool {
	return r.verified != nil && r.verified.Complete && r.baseline != nil && r.verifiesAll()
}

// record notes the proof of this run in the CRD that it is about, as a trim would be
// one (rules 3 and 5).
func (r *run) record(ctx context.Context, left []v1alpha1.Step) error {
	if !r.proven() {
		return refusef("no complete verify pass in this run: nothing is noted in the CRD")
	}
	if err := r.etcdAgrees(ctx); err != nil {
		return err
	}
	after, err := r.patchCRD(ctx, left)
	if err != nil {
		return err
	}
	if lifecycle.Verified(crd.Live(after)) == "" {
		return errors.New("the server took the patch, but the annotation " + lifecycle.VerifiedAnnotation +
			" is not in the CRD as it was sent: an admission webhook may have changed it")
	}
	return nil
}

package conversion

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// Guard looks at an object right before it is rewritten, where the schemas do not
// prove that no field is lost: what a rehearsal saw may be written again meanwhile.
type Guard struct {
	rehearsal *rehearsal
	refuse    func([]v1alpha1.FieldDifference) []v1alpha1.FieldDifference
}

// NewGuard returns the guard of a migration that the options rehearse. Refuse returns
// those of the differences that are not allowed.
func NewGuard(c cluster.Interface, options RehearseOptions, refuse func([]v1alpha1.FieldDifference) []v1alpha1.FieldDifference) *Guard {
	return &Guard{rehearsal: newRehearsal(c, options), refuse: refuse}
}

// Check returns a [cluster.LossError] if rewriting the object as it is now loses what
// may not be lost, and what the server said where that could not be seen: a webhook
// that fails for one moment lets the write through in the next one. An object that
// somebody writes or deletes meanwhile is no danger: it is not the one that the
// resourceVersion in the patch names.
func (g *Guard) Check(ctx context.Context, key types.NamespacedName) error {
	result, err := g.rehearsal.object(ctx, key)
	if err != nil {
		return err
	}
	if result.failure != nil {
		return fmt.Errorf("looking at what the rewrite would lose: %w", result.err)
	}
	var lost []v1alpha1.FieldDifference
	for _, d := range losses(result.differences) {
		lost = append(lost, v1alpha1.FieldDifference{Path: d.path, Change: d.change, Objects: 1})
	}
	if lost = g.refuse(lost); len(lost) == 0 {
		return nil
	}
	paths := make([]string, 0, len(lost))
	for _, d := range lost {
		paths = append(paths, d.Path)
	}
	return &cluster.LossError{Version: g.rehearsal.options.RequestVersion, Paths: paths}
}

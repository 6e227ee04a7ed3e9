package storagemigration

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// Guard is asked before each write of an object; an error keeps it from being
// written. It has to be quick to forget: what it saw may have changed, which the
// resourceVersion in the patch finds out.
type Guard func(ctx context.Context, key types.NamespacedName) error

// guarded are objects that are not written unless the guard lets them be.
type guarded struct {
	cluster.Objects

	guard Guard
}

// Guarded returns objects that a guard is asked about before each is written; they
// are the same without one.
func Guarded(objects cluster.Objects, guard Guard) cluster.Objects {
	if guard == nil {
		return objects
	}
	return &guarded{Objects: objects, guard: guard}
}

func (g *guarded) inner() *cluster.Objects { return &g.Objects }

// PatchMetadata asks before it writes.
func (g *guarded) PatchMetadata(ctx context.Context, key types.NamespacedName, request cluster.PatchRequest) (*metav1.PartialObjectMetadata, error) {
	if err := g.guard(ctx, key); err != nil {
		return nil, err
	}
	return g.Objects.PatchMetadata(ctx, key, request)
}

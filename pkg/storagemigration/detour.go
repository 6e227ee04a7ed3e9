package storagemigration

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// Detour is another way for objects that the schema of the version of the requests
// refuses: another served version of the same objects, whose schema may take them
// (fact 12). What is stored does not depend on it, so that an unchanged
// resourceVersion proves the same (fact 4). Its requests go over the shared
// connections: there are few.
type Detour struct {
	// Objects are the same objects through the other version.
	Objects cluster.Objects
	// Takes returns nil if an object loses nothing on the way; it is asked before
	// each write. What was written meanwhile, the resourceVersion in the patch
	// keeps from being overwritten.
	Takes func(ctx context.Context, key types.NamespacedName) error
}

// detour sends the patch of an object by the other way, if that loses nothing;
// otherwise the object stays refused.
func (p *pass) detour(
	run, requests context.Context, key types.NamespacedName, request cluster.PatchRequest, refused error,
) (*metav1.PartialObjectMetadata, error) {
	err := p.send(run, requests, unweighed, func(ctx context.Context) error { return p.options.Detour.Takes(ctx, key) })
	switch {
	case isInterrupted(err):
		return nil, err
	case err != nil:
		return nil, refused // Which the report is about.
	}
	var patched *metav1.PartialObjectMetadata
	err = p.send(run, requests, weighed, func(ctx context.Context) (err error) {
		patched, err = p.options.Detour.Objects.PatchMetadata(ctx, key, request)
		return err
	})
	return patched, err
}

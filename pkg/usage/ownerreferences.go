// Package usage collects evidence of who still uses a version of a CRD.
package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

const (
	// listers is how many resources are listed at a time: a cluster has hundreds,
	// and some of them are large.
	listers = 8
	// maxExamples is how many objects are named.
	maxExamples = 5
)

// OwnerReferencesResult is where owner references name a version.
type OwnerReferencesResult struct {
	// Objects is the number of objects that were found in all resources.
	Objects int64
	// Resources are those with such objects, by group and name.
	Resources []ReferencingResource
	// Unknown are the resources that could not be read, or not to the end. A
	// failed list says nothing of what is in it: with any, no references found
	// does not mean that there are none.
	Unknown []UnknownResource
	// Listed is the number of resources that were read to the end.
	Listed int
}

// Complete reports whether everything could be read.
func (r OwnerReferencesResult) Complete() bool { return len(r.Unknown) == 0 }

// ReferencingResource is a resource with objects whose owner references name the
// version.
type ReferencingResource struct {
	cluster.Resource

	Objects int64
	// Examples are the first few, namespace/name.
	Examples []string
}

// UnknownResource is a resource, or a whole group, that could not be read.
type UnknownResource struct {
	// Name is the resource as in "deployments.apps", or "GROUP/VERSION" where not
	// even its resources are known.
	Name string
	// Reason is as for objects that could not be rewritten.
	Reason cluster.Reason
	// Message is the server's own, escaped and cut.
	Message string
	// Lost says that objects are stored at a version which their CRD does not have:
	// the garbage collector can list them as little.
	Lost bool
}

// OwnerReferences looks in all resources that can be listed for objects with an
// ownerReference of that group, version and kind, as the garbage collector would.
// After a version is unserved, the collector, whose mapping is not renewed at
// once, takes a live owner for absent and deletes its new children (fact 16); and
// after a version is removed, children that name it are never collected.
//
// It reads metadata only, page by page. An error means that nothing could be read.
func OwnerReferences(ctx context.Context, c cluster.Interface, owner schema.GroupVersionKind) (OwnerReferencesResult, error) {
	var result OwnerReferencesResult
	resources, err := c.Discovery().ListableResources(ctx)
	if err != nil {
		failed := new(discovery.ErrGroupDiscoveryFailed)
		if !errors.As(err, &failed) {
			return result, fmt.Errorf("finding owner references to %s: %w", owner.GroupVersion(), err)
		}
		for group, err := range failed.Groups {
			result.Unknown = append(result.Unknown, unknown(group.String(), err))
		}
	}
	gone, err := result.search(ctx, c, withoutAliases(resources), owner)
	if err != nil {
		return OwnerReferencesResult{}, err
	}
	// A version, or a whole CRD, may have gone since discovery was read.
	again, err := stillListable(ctx, c, gone)
	if err != nil {
		return OwnerReferencesResult{}, err
	}
	if gone, err = result.search(ctx, c, again, owner); err != nil {
		return OwnerReferencesResult{}, err
	}
	for resource, err := range gone {
		result.Unknown = append(result.Unknown, unknown(resource.GroupResource().String(), err))
	}
	slices.SortFunc(result.Resources, func(a, b ReferencingResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.GroupVersionResource.Resource, b.GroupVersionResource.Resource))
	})
	slices.SortFunc(result.Unknown, func(a, b UnknownResource) int { return cmp.Compare(a.Name, b.Name) })
	return result, nil
}

// search looks in resources, several at a time. It returns those that are not
// there, with the error that says so.
func (r *OwnerReferencesResult) search(
	ctx context.Context, c cluster.Interface, resources []cluster.Resource, owner schema.GroupVersionKind,
) (map[cluster.Resource]error, error) {
	var mutex sync.Mutex
	gone := map[cluster.Resource]error{}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(listers)
	for _, resource := range resources {
		group.Go(func() error {
			found, err := referencing(groupCtx, c, resource, owner)
			if ctx.Err() != nil {
				return fmt.Errorf("finding owner references to %s: %w", owner.GroupVersion(), context.Cause(ctx))
			}
			mutex.Lock()
			defer mutex.Unlock()
			switch {
			case apierrors.IsNotFound(err) && found.Objects == 0:
				gone[resource] = err
				return nil
			case err != nil:
				r.Unknown = append(r.Unknown, unknown(resource.GroupResource().String(), err))
			default:
				r.Listed++
			}
			if found.Objects > 0 { // What was found before a failure is true.
				r.Objects += found.Objects
				r.Resources = append(r.Resources, found)
			}
			return nil
		})
	}
	return gone, group.Wait()
}

// stillListable returns those of the resources that discovery still has, at the
// versions that it has now.
func stillListable(ctx context.Context, c cluster.Interface, gone map[cluster.Resource]error) ([]cluster.Resource, error) {
	if len(gone) == 0 {
		return nil, nil
	}
	now, err := c.Discovery().ListableResources(ctx)
	if failed := new(discovery.ErrGroupDiscoveryFailed); err != nil && !errors.As(err, &failed) {
		return nil, fmt.Errorf("reading discovery again: %w", err)
	}
	return slices.DeleteFunc(now, func(listed cluster.Resource) bool {
		for resource := range gone {
			if resource.GroupResource() == listed.GroupResource() {
				return false
			}
		}
		return true
	}), nil
}

// withoutAliases leaves out the second name of the same objects, which would
// count twice; events are often the most numerous objects of all.
func withoutAliases(resources []cluster.Resource) []cluster.Resource {
	const eventsGroup = "events.k8s.io"
	if !slices.ContainsFunc(resources, func(r cluster.Resource) bool { return r.Group == eventsGroup }) {
		return resources
	}
	return slices.DeleteFunc(slices.Clone(resources), func(r cluster.Resource) bool {
		return r.Group == "" && r.GroupVersionResource.Resource == "events"
	})
}

func referencing(
	ctx context.Context, c cluster.Interface, resource cluster.Resource, owner schema.GroupVersionKind,
) (ReferencingResource, error) {
	found := ReferencingResource{Resource: resource}
	objects := c.Objects(resource.GroupVersionResource)
	err := cluster.EachPage(ctx, objects, cluster.PageOptions{}, func(page *metav1.PartialObjectMetadataList) error {
		for i := range page.Items {
			if !ownedBy(&page.Items[i], owner) {
				continue
			}
			found.Objects++
			if len(found.Examples) < maxExamples {
				found.Examples = append(found.Examples, display(&page.Items[i]))
			}
		}
		return nil
	})
	return found, err
}

func ownedBy(object *metav1.PartialObjectMetadata, owner schema.GroupVersionKind) bool {
	return slices.ContainsFunc(object.OwnerReferences, func(reference metav1.OwnerReference) bool {
		return reference.APIVersion == owner.GroupVersion().String() && reference.Kind == owner.Kind
	})
}

func unknown(name string, err error) UnknownResource {
	failure := cluster.Explain(err)
	lost := slices.ContainsFunc(cluster.Unreadable(err), func(o cluster.UnreadableObject) bool { return o.GroupVersion != "" })
	return UnknownResource{Name: name, Reason: failure.Reason, Message: failure.Message, Lost: lost}
}

func display(object *metav1.PartialObjectMetadata) string {
	if object.Namespace == "" {
		return object.Name
	}
	return object.Namespace + "/" + object.Name
}

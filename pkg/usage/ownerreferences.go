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
	results, err := ownerReferencesTo(ctx, c, []schema.GroupVersionKind{owner})
	if err != nil {
		return OwnerReferencesResult{}, err
	}
	return results[owner], nil
}

// ownerReferencesTo is [OwnerReferences] for several owners in one pass: it reads
// the whole cluster.
func ownerReferencesTo(
	ctx context.Context, c cluster.Interface, owners []schema.GroupVersionKind,
) (map[schema.GroupVersionKind]OwnerReferencesResult, error) {
	s := ownerSearch{owners: owners, found: map[schema.GroupVersionKind][]ReferencingResource{}}
	resources, err := c.Discovery().ListableResources(ctx)
	if err != nil {
		failed := new(discovery.ErrGroupDiscoveryFailed)
		if !errors.As(err, &failed) {
			return nil, fmt.Errorf("finding owner references%s: %w", s.to(), err)
		}
		for group, err := range failed.Groups {
			s.unknown = append(s.unknown, unknown(group.String(), err))
		}
	}
	gone, err := s.search(ctx, c, withoutAliases(resources))
	if err != nil {
		return nil, err
	}
	// A version, or a whole CRD, may have gone since discovery was read.
	again, err := stillListable(ctx, c, gone)
	if err != nil {
		return nil, err
	}
	if gone, err = s.search(ctx, c, again); err != nil {
		return nil, err
	}
	for resource, err := range gone {
		s.unknown = append(s.unknown, unknown(resource.GroupResource().String(), err))
	}
	slices.SortFunc(s.unknown, func(a, b UnknownResource) int { return cmp.Compare(a.Name, b.Name) })
	results := make(map[schema.GroupVersionKind]OwnerReferencesResult, len(owners))
	for _, owner := range owners {
		results[owner] = s.result(owner)
	}
	return results, nil
}

// ownerSearch is what was found so far.
type ownerSearch struct {
	owners []schema.GroupVersionKind

	lock    sync.Mutex
	found   map[schema.GroupVersionKind][]ReferencingResource
	unknown []UnknownResource
	listed  int
}

// to names the owner in an error where there is one.
func (s *ownerSearch) to() string {
	if len(s.owners) != 1 {
		return ""
	}
	return " to " + s.owners[0].GroupVersion().String()
}

func (s *ownerSearch) result(owner schema.GroupVersionKind) OwnerReferencesResult {
	result := OwnerReferencesResult{Resources: s.found[owner], Unknown: s.unknown, Listed: s.listed}
	for _, resource := range result.Resources {
		result.Objects += resource.Objects
	}
	slices.SortFunc(result.Resources, func(a, b ReferencingResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.GroupVersionResource.Resource, b.GroupVersionResource.Resource))
	})
	return result
}

// search looks in resources, several at a time. It returns those that are not
// there, with the error that says so.
func (s *ownerSearch) search(ctx context.Context, c cluster.Interface, resources []cluster.Resource) (map[cluster.Resource]error, error) {
	gone := map[cluster.Resource]error{}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(listers)
	for _, resource := range resources {
		group.Go(func() error {
			found, err := referencing(groupCtx, c, resource, s.owners)
			if ctx.Err() != nil {
				return fmt.Errorf("finding owner references%s: %w", s.to(), context.Cause(ctx))
			}
			s.lock.Lock()
			defer s.lock.Unlock()
			switch {
			case apierrors.IsNotFound(err) && len(found) == 0:
				gone[resource] = err
				return nil
			case err != nil:
				s.unknown = append(s.unknown, unknown(resource.GroupResource().String(), err))
			default:
				s.listed++
			}
			for owner, one := range found { // What was found before a failure is true.
				s.found[owner] = append(s.found[owner], *one)
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
	ctx context.Context, c cluster.Interface, resource cluster.Resource, owners []schema.GroupVersionKind,
) (map[schema.GroupVersionKind]*ReferencingResource, error) {
	found := map[schema.GroupVersionKind]*ReferencingResource{}
	objects := c.Objects(resource.GroupVersionResource)
	err := cluster.EachPage(ctx, objects, cluster.PageOptions{}, func(page *metav1.PartialObjectMetadataList) error {
		for i := range page.Items {
			for _, owner := range owners {
				if !ownedBy(&page.Items[i], owner) {
					continue
				}
				one := found[owner]
				if one == nil {
					one = &ReferencingResource{Resource: resource}
					found[owner] = one
				}
				one.Objects++
				if len(one.Examples) < maxExamples {
					one.Examples = append(one.Examples, display(&page.Items[i]))
				}
			}
		}
		return nil
	})
	return found, err
}

func ownedBy(object *metav1.PartialObjectMetadata, owner schema.GroupVersionKind) bool {
	return slices.ContainsFunc(object.OwnerReferences, func(reference metav1.OwnerReference) bool {
		return reference.Kind == owner.Kind && reference.APIVersion == owner.GroupVersion().String()
	})
}

func unknown(name string, err error) UnknownResource {
	failure := cluster.Explain(err)
	lost := slices.ContainsFunc(cluster.Unreadable(err), func(o cluster.UnreadableObject) bool { return o.GroupVersion != "" })
	return UnknownResource{Name: name, Reason: failure.Reason, Message: failure.Message, Lost: lost}
}

// display returns namespace/name of an object.
func display(object metav1.Object) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}

package usage

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// maxManagers is how many managers are told one by one.
const maxManagers = 100

// ManagedFieldsResult is who wrote objects of a resource at a version.
type ManagedFieldsResult struct {
	// Listed is the number of objects of the resource.
	Listed int64
	// Objects is the number of those whose managedFields name the version.
	Objects int64
	// Managers are who wrote them, most objects first.
	Managers []ManagerReferences
	// More is set where there were more managers than are told.
	More bool
}

// ManagerReferences is what one manager wrote at the version.
type ManagerReferences struct {
	Manager     string
	Operation   metav1.ManagedFieldsOperationType
	Subresource string
	// Objects is the number of objects.
	Objects int64
	// Last is the time of the last such write that changed which fields the
	// manager owns, or their values; nil if none has a time.
	Last *metav1.Time
}

type managerKey struct {
	manager     string
	operation   metav1.ManagedFieldsOperationType
	subresource string
}

// ManagedFieldsReferences counts the objects whose managedFields name a version,
// by manager. It lists them through resource, which has to be served; that is
// commonly another version. Such an entry is evidence that somebody wrote at the
// version, and once the version is removed it breaks every server-side apply to
// the object (fact 5). It is no evidence of who reads.
func ManagedFieldsReferences(
	ctx context.Context, c cluster.Interface, resource schema.GroupVersionResource, version string,
) (ManagedFieldsResult, error) {
	var result ManagedFieldsResult
	apiVersion := schema.GroupVersion{Group: resource.Group, Version: version}.String()
	managers := map[managerKey]*ManagerReferences{}
	err := cluster.EachPage(ctx, c.Objects(resource), cluster.PageOptions{}, func(page *metav1.PartialObjectMetadataList) error {
		for i := range page.Items {
			result.Listed++
			if result.add(managers, page.Items[i].ManagedFields, apiVersion) {
				result.Objects++
			}
		}
		return nil
	})
	if err != nil {
		return ManagedFieldsResult{}, fmt.Errorf("finding managedFields of %s: %w", apiVersion, err)
	}
	for _, manager := range managers {
		result.Managers = append(result.Managers, *manager)
	}
	slices.SortFunc(result.Managers, func(a, b ManagerReferences) int {
		return cmp.Or(
			cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Manager, b.Manager),
			cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Subresource, b.Subresource),
		)
	})
	return result, nil
}

// add counts the entries of one object, and reports whether there are any.
func (r *ManagedFieldsResult) add(
	managers map[managerKey]*ManagerReferences, entries []metav1.ManagedFieldsEntry, apiVersion string,
) bool {
	named := false
	for _, entry := range entries {
		if entry.APIVersion != apiVersion {
			continue
		}
		named = true
		key := managerKey{manager: entry.Manager, operation: entry.Operation, subresource: entry.Subresource}
		manager := managers[key]
		if manager == nil {
			if len(managers) == maxManagers {
				r.More = true
				continue
			}
			manager = &ManagerReferences{Manager: key.manager, Operation: key.operation, Subresource: key.subresource}
			managers[key] = manager
		}
		manager.Objects++
		if entry.Time != nil && (manager.Last == nil || manager.Last.Before(entry.Time)) {
			manager.Last = entry.Time.DeepCopy() // The page is not kept.
		}
	}
	return named
}

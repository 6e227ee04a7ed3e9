package managedfields

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ancient is the field manager that the server gives the oldest writes to where more
// than ten managers update an object (capmanagers in apimachinery): it forgets who,
// when and through which subresource.
const Ancient = "ancient-changes"

// Managers returns who managed fields of an object, without the fields.
func Managers(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	if len(entries) == 0 {
		return nil
	}
	managers := make([]metav1.ManagedFieldsEntry, len(entries))
	for i, entry := range entries {
		managers[i] = metav1.ManagedFieldsEntry{Manager: entry.Manager, Operation: entry.Operation, Subresource: entry.Subresource}
	}
	return managers
}

// Lost returns the managers that an object had before it was rewritten, and
// has no more: an API server that cannot convert managedFields may clear them with
// any write, and the next apply then leaves behind what it should remove
// (kubernetes/kubernetes#136919).
func Lost(before, after []metav1.ManagedFieldsEntry) []string {
	if slices.ContainsFunc(after, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == Ancient }) {
		return nil
	}
	var lost []string
	for _, entry := range before {
		same := func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == entry.Manager && e.Operation == entry.Operation && e.Subresource == entry.Subresource
		}
		if !slices.ContainsFunc(after, same) && !slices.Contains(lost, entry.Manager) {
			lost = append(lost, entry.Manager)
		}
	}
	slices.Sort(lost)
	return lost
}

package storagemigration

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ancientManager is what the server merges the oldest managers into when there are
// too many of them (captrackmanager in apimachinery).
const ancientManager = "ancient-changes"

// managersOnly returns who managed fields of an object, without the fields.
func managersOnly(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	if len(entries) == 0 {
		return nil
	}
	managers := make([]metav1.ManagedFieldsEntry, len(entries))
	for i, entry := range entries {
		managers[i] = metav1.ManagedFieldsEntry{Manager: entry.Manager, Operation: entry.Operation, Subresource: entry.Subresource}
	}
	return managers
}

// lostManagers returns the managers that an object had before it was rewritten, and
// has no more: an API server that cannot convert managedFields may clear them with
// any write, and the next apply then leaves behind what it should remove
// (kubernetes/kubernetes#136919).
func lostManagers(before, after []metav1.ManagedFieldsEntry) []string {
	if slices.ContainsFunc(after, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == ancientManager }) {
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

// compareManagers counts an object whose rewriting took managers away from it. The
// first one is told at once: there is time to stop.
func (p *pass) compareManagers(before, after *metav1.PartialObjectMetadata) {
	if !p.noOp {
		return
	}
	lost := lostManagers(before.ManagedFields, after.ManagedFields)
	if len(lost) == 0 {
		return
	}
	p.mu.Lock()
	p.result.Counts.ManagersLost++
	first := p.result.Counts.ManagersLost == 1
	p.mu.Unlock()
	if first {
		quoted := make([]string, len(lost))
		for i, manager := range lost {
			quoted[i] = fmt.Sprintf("%q", manager)
		}
		p.notice("writing %s took the entries of %s out of its metadata.managedFields: a webhook does that, or an API server that cannot convert them; "+
			"what these managers apply next leaves behind what they no longer say", display(keyOf(before)), strings.Join(quoted, ", "))
	}
}

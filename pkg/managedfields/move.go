// Package managedfields moves entries of metadata.managedFields from one
// version of a CRD to another.
//
// An entry names the version that its paths are of. Once that version has left
// spec.versions, the server can convert nothing to it, and every server-side
// apply to the object fails, whoever applies ("request to convert CR to an
// invalid group/version"). Deleting the entry instead would make the object
// forget who owns what, and an apply would no longer remove what its manager
// left out. So the package also tells which managers a write took away.
package managedfields

import (
	"bytes"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// fieldsType is the only format of fields there is.
const fieldsType = "FieldsV1"

// seed is the path of an entry that has lost all its own and must stay. The
// server keeps no entry without paths. metadata.name never changes, and the
// server leaves it out of what a manager applies, so that nobody is hindered.
const seed = `{"f:metadata":{"f:name":{}}}`

// Dropped is what an entry loses in a move: the paths that the target version's
// schema does not know.
type Dropped struct {
	Manager     string
	Operation   metav1.ManagedFieldsOperationType
	Subresource string
	// APIVersion is the group/version that the paths were of.
	APIVersion string
	// Paths are "spec.hostPort", with "[*]" for list items, whose keys are values.
	Paths []string
}

// Names reports whether an entry is of a group/version.
func Names(entries []metav1.ManagedFieldsEntry, apiVersion string) bool {
	return slices.ContainsFunc(entries, func(e metav1.ManagedFieldsEntry) bool { return e.APIVersion == apiVersion })
}

// Move returns the entries with those of the group/version from moved to the
// group/version to, keeping only the paths that known accepts. A moved entry is
// merged with an entry of the same manager, operation and subresource that is
// there already, and the later time of both is kept. Order and all other entries
// stay as they are. changed is false where no entry is of from.
//
// An entry that keeps no path is left out, as the server would do itself. Where
// nothing at all would be left, the first such entry stays, with the path
// metadata.name: an object without managedFields is one that nobody has applied
// to yet, and the next apply then shares every field with "before-first-apply"
// and never removes one again.
func Move(
	entries []metav1.ManagedFieldsEntry, from, to string, known func(fieldpath.Path) bool,
) (moved []metav1.ManagedFieldsEntry, changed bool, dropped []Dropped, err error) {
	return MoveAll(entries, func(apiVersion string) bool { return apiVersion == from }, to, known)
}

// MoveAll is [Move] for the entries of every group/version that stale accepts.
func MoveAll(
	entries []metav1.ManagedFieldsEntry, stale func(apiVersion string) bool, to string, known func(fieldpath.Path) bool,
) (moved []metav1.ManagedFieldsEntry, changed bool, dropped []Dropped, err error) {
	moved = slices.Clone(entries)
	gone := make([]bool, len(entries))
	for i := range moved {
		if moved[i].APIVersion == to || !stale(moved[i].APIVersion) {
			continue
		}
		changed = true
		lost, err := retarget(&moved[i], to, known)
		if err != nil {
			return nil, false, nil, err
		}
		if len(lost.Paths) > 0 {
			dropped = append(dropped, lost)
		}
		if gone[i] = empty(moved[i]); gone[i] {
			continue
		}
		for j := range moved {
			if j == i || gone[j] || !sameOwner(moved[i], moved[j]) {
				continue
			}
			if err := mergeInto(&moved[j], moved[i]); err != nil {
				return nil, false, nil, err
			}
			gone[i] = true
			break
		}
	}
	if !changed {
		return entries, false, nil, nil
	}
	return compact(moved, gone), true, dropped, nil
}

// compact returns the entries that are not gone, or the first with the seed.
func compact(entries []metav1.ManagedFieldsEntry, gone []bool) []metav1.ManagedFieldsEntry {
	left := make([]metav1.ManagedFieldsEntry, 0, len(entries))
	owned := false
	for i, entry := range entries {
		if !gone[i] {
			left, owned = append(left, entry), owned || !empty(entry)
		}
	}
	if owned {
		return left
	}
	// Entries that are empty although they are not gone were so before; the
	// server drops them at the next write.
	first := slices.Index(gone, true)
	entries[first].FieldsV1, entries[first].FieldsType = metav1.NewFieldsV1(seed), fieldsType
	gone[first] = false
	return compact(entries, gone)
}

// retarget makes the entry one of the group/version to, without the paths that
// are not known there.
func retarget(entry *metav1.ManagedFieldsEntry, to string, known func(fieldpath.Path) bool) (Dropped, error) {
	lost := Dropped{
		Manager: entry.Manager, Operation: entry.Operation, Subresource: entry.Subresource, APIVersion: entry.APIVersion,
	}
	fields, err := decode(*entry)
	if err != nil {
		return lost, err
	}
	entry.APIVersion = to
	kept := fieldpath.NewSet()
	seen := map[string]bool{}
	fields.Iterate(func(path fieldpath.Path) {
		if known(path) {
			kept.Insert(path.Copy()) // Iterate uses the path again.
			return
		}
		if text := render(path); !seen[text] {
			seen[text] = true
			lost.Paths = append(lost.Paths, text)
		}
	})
	if len(seen) == 0 {
		return lost, nil // The server's own bytes need not be encoded again.
	}
	return lost, encode(entry, kept)
}

// mergeInto adds the fields and the time of an entry to those of another.
func mergeInto(into *metav1.ManagedFieldsEntry, entry metav1.ManagedFieldsEntry) error {
	one, err := decode(*into)
	if err != nil {
		return err
	}
	other, err := decode(entry)
	if err != nil {
		return err
	}
	if into.Time == nil || entry.Time != nil && into.Time.Before(entry.Time) {
		into.Time = entry.Time
	}
	return encode(into, one.Union(other))
}

// sameOwner reports whether the server takes two entries for one, with the
// version apart.
func sameOwner(a, b metav1.ManagedFieldsEntry) bool {
	return a.APIVersion == b.APIVersion && a.Manager == b.Manager && a.Operation == b.Operation && a.Subresource == b.Subresource
}

// empty reports whether an entry has no path. Anything else that cannot be
// decoded is not empty.
func empty(entry metav1.ManagedFieldsEntry) bool {
	fields, err := decode(entry)
	return err == nil && fields.Empty()
}

func decode(entry metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	fields := fieldpath.NewSet()
	if entry.FieldsV1 == nil {
		return fields, nil // As the server does.
	}
	if entry.FieldsType != fieldsType {
		return nil, fmt.Errorf("managedFields of %q have the type %q, want %s", entry.Manager, entry.FieldsType, fieldsType)
	}
	if err := fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
		return nil, fmt.Errorf("decoding managedFields of %q: %w", entry.Manager, err)
	}
	return fields, nil
}

func encode(entry *metav1.ManagedFieldsEntry, fields *fieldpath.Set) error {
	raw, err := fields.ToJSON()
	if err != nil {
		return fmt.Errorf("encoding managedFields of %q: %w", entry.Manager, err)
	}
	encoded := metav1.FieldsV1{}
	encoded.SetRawBytes(raw) // A new one: the caller's entries share the old.
	entry.FieldsV1 = &encoded
	return nil
}

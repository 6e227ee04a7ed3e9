package lifecycle

import (
	"fmt"
	"slices"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

// Stored is what etcd holds of the objects of a CRD, by the version that they are
// persisted at. Nothing else tells it without a rewrite (rule 3).
type Stored struct {
	// Source is what was read: "etcd at https://...", "the etcd snapshot FILE".
	Source string
	// Snapshot says that it is as old as a file. What was stored then may have been
	// migrated since, and what was migrated then may have been written anew.
	Snapshot bool
	// Error says why nothing is known of this CRD.
	Error string
	// Counts are the objects by version; those of unknown version have none.
	Counts []v1alpha1.StoredCount
}

// Holds says what etcd holds at a version: "etcd holds 3 objects at v1beta1".
func (s Stored) Holds(count v1alpha1.StoredCount) string {
	return fmt.Sprintf("%s holds %s at %s", s.Source, english.Plural(count.Objects, "object"), count.Version)
}

// StoredUnlisted returns the counts of versions that objects are persisted at and
// that status.storedVersions does not list, but spec.versions has.
func (s State) StoredUnlisted() []v1alpha1.StoredCount {
	return s.storedAt(func(version string) bool { return s.Version(version) != nil && !slices.Contains(s.Stored, version) })
}

// StoredUnreadable returns the counts of versions that objects are persisted at and
// that spec.versions does not have: they cannot be read (fact 1).
func (s State) StoredUnreadable() []v1alpha1.StoredCount {
	return s.storedAt(func(version string) bool { return s.Version(version) == nil })
}

// StoredUnknown returns how many objects are encrypted or cannot be decoded.
func (s State) StoredUnknown() int64 {
	var unknown int64
	if s.Observations.Stored != nil {
		for _, count := range s.Observations.Stored.Counts {
			if count.Version == "" {
				unknown += count.Objects
			}
		}
	}
	return unknown
}

func (s State) storedAt(matches func(version string) bool) []v1alpha1.StoredCount {
	var counts []v1alpha1.StoredCount
	if s.Observations.Stored == nil {
		return nil
	}
	for _, count := range s.Observations.Stored.Counts {
		if count.Version != "" && count.Objects > 0 && matches(count.Version) {
			counts = append(counts, count)
		}
	}
	return counts
}

// storedReasons are the reasons of etcd against status.storedVersions.
func storedReasons(s State) []string {
	var reasons []string
	for _, count := range slices.Concat(s.StoredUnlisted(), s.StoredUnreadable()) {
		if !slices.Contains(s.Stored, count.Version) {
			reasons = append(reasons, s.Observations.Stored.Holds(count)+", which status.storedVersions does not list")
		}
	}
	return reasons
}

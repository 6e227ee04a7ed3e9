package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// VerifiedAnnotation says that every object was seen to be persisted at the storage
// version. A trim says so by its name on the list; where there was nothing to trim,
// this annotation is all that is left of the proof.
const VerifiedAnnotation = "crdver.dev/verified"

// clockDifference is how far the clocks of two API servers, or that of this machine,
// may be apart before a time in the annotation counts as one in the future.
const clockDifference = 5 * time.Minute

// beforeFirstApply is the field manager that the server gives everything to which was
// there before it began to record who writes an object.
const beforeFirstApply = "before-first-apply"

// NewVerified returns the annotation for a CRD whose objects were just verified. at is
// the time of the API server.
func NewVerified(c crd.CRD, by, manager string, at time.Time) v1alpha1.Verified {
	return v1alpha1.Verified{
		Format: v1alpha1.VerifiedFormat, UID: string(c.UID), StorageVersion: c.StorageVersion(), Generation: c.Generation,
		At: metav1.Time{Time: at.UTC().Truncate(time.Second)}, By: by, Manager: manager, ListWriters: listWriters(c),
	}
}

// ReadVerified returns the annotation of a CRD, or nil where it has none. One that does
// not make sense, or that somebody else has changed, is an error.
func ReadVerified(c crd.CRD) (*v1alpha1.Verified, error) {
	record := new(v1alpha1.Verified)
	if found, err := readMark(c, VerifiedAnnotation, record); !found || err != nil {
		return nil, err
	}
	switch {
	case record.Format != v1alpha1.VerifiedFormat:
		return nil, fmt.Errorf("the annotation %s has the format %d, which this version of kubectl crdver does not know", VerifiedAnnotation, record.Format)
	case record.UID == "" || record.StorageVersion == "" || record.Generation < 1 || record.At.IsZero() || record.Manager == "":
		return nil, fmt.Errorf("the annotation %s is not complete", VerifiedAnnotation)
	case record.UID != string(c.UID):
		return nil, fmt.Errorf("the annotation %s is about another CRD (UID %s): it was copied", VerifiedAnnotation, record.UID)
	case record.Generation > c.Generation:
		return nil, fmt.Errorf("the annotation %s is about generation %d, which the CRD has not reached", VerifiedAnnotation, record.Generation)
	}
	// Whoever edits the value becomes a manager of it.
	for _, w := range verifiedWriters(c) {
		switch {
		case w.manager != record.Manager && w.manager != beforeFirstApply:
			return nil, fmt.Errorf("the annotation %s was changed by %q%s", VerifiedAnnotation, w.manager, w.at())
		case w.time != nil && record.At.After(w.time.Add(clockDifference)):
			return nil, fmt.Errorf("the annotation %s has a time in the future of when it was written, %s", VerifiedAnnotation, timeOf(record.At.Time))
		}
	}
	return record, nil
}

func verifiedWriters(c crd.CRD) []writer {
	return fieldWriters(c, "metadata", "annotations", VerifiedAnnotation)
}

// Verified tells why the annotation of a CRD proves that no object is persisted at
// another version than the storage version, or returns "".
func Verified(c crd.CRD) string {
	record, err := ReadVerified(c)
	if record == nil || err != nil {
		return ""
	}
	why, _ := holds(c, *record)
	return why
}

// holds tells why the proof that an annotation records still holds, or returns "".
//
// With the same generation nothing of the spec has changed. The storage version is
// part of it, so that every write since was encoded at it, and it does not matter who
// has written status.storedVersions: same is true.
//
// With another one, the storage version may have changed and changed back. The server
// itself lists a version with the write that makes it the storage version, so that the
// list can only be [storage] again because somebody has written it. Whoever did takes
// off all who were on the list by name before: with the same names and times as then,
// nobody did. Somebody has to be on it, though: who writes it can take the own name off
// again, by an apply without the field, so that no name says nothing. Only names and
// times of managedFields are compared with each other, so that no two clocks have to
// agree, with one exception: the times are in whole seconds, and somebody who wrote the
// list in the second of the proof may have written it again after the proof within the
// same second.
func holds(c crd.CRD, record v1alpha1.Verified) (why string, same bool) {
	storage, stored := c.StorageVersion(), c.Status.StoredVersions
	proven := "proven by kubectl crdver at " + timeOf(record.At.Time)
	switch {
	case record.StorageVersion != storage:
		return "", false
	case record.Generation == c.Generation:
		return proven + ", and the spec has not changed since", true
	case len(stored) != 1 || stored[0] != storage:
		return "", false
	case !slices.ContainsFunc(verifiedWriters(c), func(w writer) bool { return w.manager == record.Manager }):
		return "", false // managedFields were cleared since, or were not kept then.
	case len(storedVersionsWriters(c)) == 0:
		return "", false
	case !sameWriters(record.ListWriters, listWriters(c), record.At):
		return "", false
	}
	return fmt.Sprintf("%s: %s is still the storage version, and nobody has written status.storedVersions since", proven, storage), false
}

// Proven reports whether kubectl crdver has proven that no object is persisted at a
// version which status.storedVersions does not list, and nothing has happened since
// that could have changed it.
func (s State) Proven() bool {
	return s.Trust.Trusted && (provenSince(s.CRD) || recorded(s.CRD, s).why != "")
}

// listWriters returns who may have taken something out of status.storedVersions. Those
// on the list have their name on it. The in-tree migration can also take its own name
// off, and with it what it listed (fact 2): whatever it writes counts.
func listWriters(c crd.CRD) []v1alpha1.ListWriter {
	var writers []v1alpha1.ListWriter
	add := func(manager string, at *metav1.Time) {
		entry := v1alpha1.ListWriter{Manager: manager}
		if at != nil {
			entry.At = metav1.Time{Time: at.UTC()}
		}
		writers = append(writers, entry)
	}
	for _, w := range storedVersionsWriters(c) {
		add(w.manager, w.time)
	}
	for _, entry := range c.ManagedFields {
		if entry.Manager == inTreeFieldManager {
			add(entry.Manager, entry.Time)
		}
	}
	slices.SortFunc(writers, func(a, b v1alpha1.ListWriter) int {
		return cmp.Or(cmp.Compare(a.Manager, b.Manager), a.At.Compare(b.At.Time))
	})
	return slices.CompactFunc(writers, sameWriter)
}

func sameWriter(a, b v1alpha1.ListWriter) bool {
	return a.Manager == b.Manager && a.At.Equal(&b.At)
}

// sameWriters reports whether the writers now are those of the proof, all of whom wrote
// before the second of the proof.
func sameWriters(then, now []v1alpha1.ListWriter, proof metav1.Time) bool {
	return slices.EqualFunc(then, now, sameWriter) && !slices.ContainsFunc(then, func(w v1alpha1.ListWriter) bool {
		return w.At.IsZero() || !w.At.Before(&proof)
	})
}

// verdict is what the annotation says for the trust in status.storedVersions.
type verdict struct {
	// why the proof still holds; "" if it does not, or there is none.
	why string
	// unchanged says that the spec is the one of the proof.
	unchanged bool
	// doubt is why there is an annotation that proves nothing, "" if there is none.
	doubt string
}

// recorded looks at the annotation.
func recorded(c crd.CRD, s State) verdict {
	record, err := ReadVerified(c)
	switch now := s.Observations.Now; {
	case err != nil:
		return verdict{doubt: err.Error() + ": it proves nothing"}
	case record == nil:
		return verdict{}
	case !now.IsZero() && record.At.After(now.Add(clockDifference)):
		return verdict{doubt: fmt.Sprintf("the annotation %s has a time in the future, %s: it proves nothing", VerifiedAnnotation, timeOf(record.At.Time))}
	}
	why, unchanged := holds(c, *record)
	if why == "" {
		return verdict{doubt: fmt.Sprintf("what kubectl crdver proved at %s (annotation %s) may have changed since", timeOf(record.At.Time), VerifiedAnnotation)}
	}
	return verdict{why: why, unchanged: unchanged}
}

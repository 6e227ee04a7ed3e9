package lifecycle

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/managedfields"
)

// FieldManager is the field manager that this tool trims storedVersions with:
// it does so after a complete verify pass only.
const FieldManager = "kubectl-crdver"

// inTreeFieldManager is the field manager of the in-tree storage version
// migration controller (pkg/controller/storageversionmigrator).
const inTreeFieldManager = "migration-runner-controller"

// Trust is whether status.storedVersions can be believed.
type Trust struct {
	Trusted bool
	// Reasons say why, each with its source; never empty for a live CRD.
	Reasons []string
}

// trust looks for everything that is known to remove entries of storedVersions
// while objects may still be persisted at them: the in-tree migration, which
// trims when it fails and, the second time, when it starts (facts 1 and 2), and
// other people's patches of the status (fact 13). A proof that is recorded and still
// holds outweighs all that was before it, but not what etcd holds.
func trust(c crd.CRD, s State) Trust {
	if !c.Origin.Live() {
		return Trust{Reasons: []string{"a manifest says nothing about stored versions"}}
	}
	var against []string
	record := recorded(c, s)
	against = append(against, storedReasons(s)...)
	told := len(against)
	if !record.unchanged {
		against = append(against, inTree(c, s.Observations.Migrations, provenSince(c) || record.why != "")...)
	}
	doubted := len(against) > told
	if bogus := s.BogusStored(); len(bogus) > 0 {
		against = append(against, fmt.Sprintf(
			"status.storedVersions lists %s, which spec.versions does not have: the server refuses every change of the spec until it is trimmed",
			strings.Join(bogus, ", ")))
	}
	if s.Storage != "" && !slices.Contains(s.Stored, s.Storage) {
		against = append(against, fmt.Sprintf("status.storedVersions does not list the storage version %s", s.Storage))
	}
	if record.why == "" {
		by := writtenBy(c, s, len(against) == 0)
		against, doubted = append(against, by...), doubted || len(by) > 0
	}
	if record.doubt != "" && doubted {
		against = append(against, record.doubt) // It would outweigh these reasons, and these alone.
	}
	if len(against) > 0 {
		return Trust{Reasons: against}
	}
	if s.Observations.MigrationsError != "" && !record.unchanged {
		return Trust{Reasons: []string{"in-tree storage version migrations could not be read: " + s.Observations.MigrationsError}}
	}
	why := "nothing is known to have trimmed the list"
	switch {
	case record.why != "":
		why = record.why
	case slices.ContainsFunc(storedVersionsWriters(c), func(w writer) bool { return w.manager == FieldManager }):
		why = "trimmed by kubectl crdver after a complete verify pass (managedFields)"
	}
	return Trust{Trusted: true, Reasons: []string{why}}
}

// writtenBy returns the reasons that who wrote the list gives. That the in-tree
// migration did is one only where nothing else tells of it.
func writtenBy(c crd.CRD, s State, first bool) []string {
	var against []string
	for _, w := range storedVersionsWriters(c) {
		switch w.manager {
		case FieldManager:
		case PutBackManager:
			against = append(against, "kubectl crdver put versions back into status.storedVersions"+w.at()+
				" (managedFields), because the in-tree migration had trimmed it, and has not verified the objects since")
		case inTreeFieldManager:
			if first && len(against) == 0 {
				against = append(against, "status.storedVersions was last written by the in-tree storage version migration"+w.at()+
					" (managedFields), which trims even when it fails")
			}
		default:
			against = append(against, fmt.Sprintf(
				"status.storedVersions was last written by %q%s (managedFields): nothing shows that the objects were rewritten first",
				w.manager, w.at()))
		}
	}
	if first && len(against) == 0 && untold(c, s) {
		against = append(against, "nothing tells who wrote status.storedVersions: the CRD has no managedFields that can be read")
	}
	return against
}

// untold reports whether nothing at all is known of who wrote storedVersions, while
// a version could have been taken out of it. The server records its own writes of
// every CRD, so that managedFields without an entry were cleared, or are older
// than they; from then on other people's updates leave no trace.
func untold(c crd.CRD, s State) bool {
	return !slices.ContainsFunc(c.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool { return fieldsOf(entry) != nil }) &&
		slices.ContainsFunc(s.Versions, func(v Version) bool { return !slices.Contains(s.Stored, v.Name) })
}

// fieldsOf returns the fields of an entry, or nil where they cannot be read.
func fieldsOf(entry metav1.ManagedFieldsEntry) *fieldpath.Set {
	var set fieldpath.Set
	if entry.FieldsV1 == nil || set.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) != nil {
		return nil
	}
	return &set
}

// inTree returns the reasons that in-tree migrations give. Of what lies before
// our own proof, nothing counts.
func inTree(c crd.CRD, migrations []Migration, proven bool) []string {
	var reasons []string
	condition := c.Condition(apiextensionsv1.StorageMigrating)
	if condition != nil && (!proven || condition.Status == apiextensionsv1.ConditionTrue) {
		why := "the in-tree migration trims status.storedVersions without verifying the objects"
		switch {
		case condition.Status == apiextensionsv1.ConditionTrue:
			why = "a second in-tree migration trims status.storedVersions when it starts"
		case condition.Reason == "MigrationFailed":
			why = "an in-tree migration trims status.storedVersions although it failed"
		}
		reasons = append(reasons, fmt.Sprintf("condition StorageMigrating is %s (%s): %s",
			condition.Status, condition.Reason, why))
	}
	for _, m := range migrations {
		switch {
		case proven && !m.Running:
		case m.Failed:
			reasons = append(reasons, fmt.Sprintf(
				"StorageVersionMigration %s failed, and a failed one trims status.storedVersions too", m.Name))
		case m.Running:
			reasons = append(reasons, fmt.Sprintf("StorageVersionMigration %s is not finished", m.Name))
		case condition == nil:
			reasons = append(reasons, fmt.Sprintf(
				"StorageVersionMigration %s ran, and does not verify the objects", m.Name))
		}
	}
	if len(migrations) > 1 && !proven {
		reasons = append(reasons, fmt.Sprintf(
			"%d StorageVersionMigrations ran: each but the first trims status.storedVersions when it starts", len(migrations)))
	}
	return reasons
}

// writer is a managedFields entry that owns a field.
type writer struct {
	manager     string
	subresource string
	time        *metav1.Time
}

// at returns " at TIME", or "".
func (w writer) at() string {
	if w.time == nil || w.time.IsZero() {
		return ""
	}
	return " at " + w.time.UTC().Format(time.RFC3339)
}

// storedVersionsWriters returns who wrote status.storedVersions through the
// status subresource. The server's own additions, when a version becomes the
// storage version, come with the main resource and take nothing away.
func storedVersionsWriters(c crd.CRD) []writer {
	var writers []writer
	for _, w := range fieldWriters(c, "status", "storedVersions") {
		if w.subresource == "status" && w.manager != "kube-apiserver" || w.manager == managedfields.Ancient {
			writers = append(writers, w)
		}
	}
	return writers
}

// VersionsChanged returns when spec.versions was last changed, as far as
// managedFields tell, and the zero time if they do not.
func VersionsChanged(c crd.CRD) time.Time {
	var last time.Time
	for _, w := range fieldWriters(c, "spec", "versions") {
		if w.time != nil && w.time.After(last) {
			last = w.time.Time
		}
	}
	return last
}

// fieldWriters returns the managedFields entries that own a field, newest first.
func fieldWriters(c crd.CRD, path ...any) []writer {
	field, err := fieldpath.MakePath(path...)
	if err != nil {
		return nil
	}
	var writers []writer
	for _, entry := range c.ManagedFields {
		set := fieldsOf(entry)
		if set == nil {
			continue
		}
		owns := false
		set.Iterate(func(p fieldpath.Path) {
			if len(p) >= len(field) && p[:len(field)].Equals(field) {
				owns = true
			}
		})
		if owns {
			writers = append(writers, writer{manager: entry.Manager, subresource: entry.Subresource, time: entry.Time})
		}
	}
	slices.SortStableFunc(writers, func(a, b writer) int {
		if a.time == nil || b.time == nil {
			return 0
		}
		return b.time.Compare(a.time.Time)
	})
	return writers
}

package printers

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

// StoredTable returns what etcd holds: counts, or the objects at one version.
func StoredTable(report *v1alpha1.StoredReport) Table {
	if report.At != "" {
		return foundTable(report)
	}
	byNamespace := false
	for _, item := range report.Items {
		byNamespace = byNamespace || item.Namespaces != nil
	}
	table := Table{Columns: []Column{{Header: "CRD"}}}
	if byNamespace {
		table.Columns = append(table.Columns, Column{Header: "NAMESPACE"})
	}
	table.Columns = append(table.Columns, Column{Header: "STORED-AT"}, Column{Header: "OBJECTS"}, Column{Header: "STATE"},
		Column{Header: "STORED-VERSIONS", Wide: true}, Column{Header: "REVISION", Wide: true})
	for _, item := range report.Items {
		add := func(counts []v1alpha1.StoredCount, place ...string) {
			for _, count := range counts {
				table.Rows = append(table.Rows, append(append([]string{item.Name}, place...),
					storedAt(count), strconv.FormatInt(count.Objects, 10), storedState(count),
					strings.Join(item.StoredVersions, ","), strconv.FormatInt(item.Revision, 10)))
			}
		}
		if !byNamespace {
			add(item.Stored)
		}
		for _, namespace := range item.Namespaces {
			add(namespace.Stored, namespace.Namespace)
		}
	}
	return table
}

// foundTable lists objects.
func foundTable(report *v1alpha1.StoredReport) Table {
	table := Table{Columns: []Column{{Header: "CRD"}, {Header: "NAMESPACE"}, {Header: "NAME"}, {Header: "STORED-AT"}}}
	for _, item := range report.Items {
		for _, object := range item.Found {
			table.Rows = append(table.Rows, []string{item.Name, object.Namespace, object.Name, report.At})
		}
	}
	return table
}

// storedAt returns the version, or what is known instead.
func storedAt(count v1alpha1.StoredCount) string {
	switch {
	case count.Encrypted != "":
		return "encrypted (" + count.Encrypted + ")"
	case count.Undecodable:
		return "undecodable"
	}
	return count.Version
}

// storedState says what is right or wrong with objects at a version.
func storedState(count v1alpha1.StoredCount) string {
	switch count.State {
	case v1alpha1.StoredCurrent:
		return "storage version"
	case v1alpha1.StoredListed:
		if count.Objects == 0 {
			return "listed, nothing is stored"
		}
		return "not migrated yet"
	case v1alpha1.StoredUnlisted:
		return "NOT LISTED in status.storedVersions"
	case v1alpha1.StoredUnreadable:
		if count.Objects == 0 {
			return "listed, not in spec.versions, nothing is stored"
		}
		return "NOT IN SPEC: cannot be read"
	case v1alpha1.StoredWithoutCRD:
		return "no CRD could be read"
	case v1alpha1.StoredEncrypted, v1alpha1.StoredUndecodable:
	}
	return "unknown"
}

// StoredNotes say what is to be done about what is wrong.
func StoredNotes(item v1alpha1.StoredCRD) []string {
	var notes []string
	for _, count := range item.Stored {
		if count.Objects == 0 {
			continue
		}
		objects := english.Plural(count.Objects, "object")
		switch count.State {
		case v1alpha1.StoredUnlisted:
			notes = append(notes, fmt.Sprintf("%s: %s at %s, which status.storedVersions does not list: do not remove %s; to rewrite them: kubectl crdver migrate %s --force",
				item.Name, objects, count.Version, count.Version, item.Name))
		case v1alpha1.StoredUnreadable:
			notes = append(notes, fmt.Sprintf("%s: %s at %s, which spec.versions does not have: they are whole, but cannot be read, until it is there again: kubectl crdver restore %s -f MANIFEST %s",
				item.Name, objects, count.Version, count.Version, item.Name))
		case v1alpha1.StoredUndecodable:
			notes = append(notes, fmt.Sprintf("%s: %s cannot be decoded; to list them: --at undecodable", item.Name, objects))
		case v1alpha1.StoredEncrypted:
			notes = append(notes, fmt.Sprintf("%s: %s encrypted at rest by %s: their version is not known; kubectl crdver migrate %s proves it by rewriting them",
				item.Name, objects, count.Encrypted, item.Name))
		case v1alpha1.StoredCurrent, v1alpha1.StoredListed, v1alpha1.StoredWithoutCRD:
		}
	}
	return notes
}

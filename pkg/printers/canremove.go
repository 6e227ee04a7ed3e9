package printers

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// leaveRule is the rule of the Kubernetes documentation.
const leaveRule = "A version may leave the manifest only when every cluster that served it has migrated its objects and trimmed status.storedVersions."

// WriteCanRemove writes for people whether versions may leave their manifests: a
// table, what stands in the way on which cluster, and the verdict.
func WriteCanRemove(w io.Writer, report *v1alpha1.CanRemoveReport, options TableOptions) error {
	var out strings.Builder
	if err := canRemoveTable(report).Print(&out, options); err != nil {
		return err
	}
	for _, one := range report.Clusters {
		if one.Note != "" {
			fmt.Fprintf(&out, "\n%s: %s\n", Escape(one.Context), Escape(one.Note))
		}
	}
	for _, item := range report.Items {
		if len(item.Blockers) == 0 {
			continue
		}
		fmt.Fprintf(&out, "\n%s: %s %s:\n", Escape(item.Context), Escape(item.CRD), Escape(item.Version))
		for _, blocker := range item.Blockers {
			fmt.Fprintf(&out, "  %s\n", Escape(blocker.Message))
			if blocker.Resolve != "" {
				fmt.Fprintf(&out, "    %s\n", Escape(blocker.Resolve))
			}
			for _, detail := range blocker.Details {
				fmt.Fprintf(&out, "    %s\n", Escape(detail))
			}
		}
	}
	if len(report.Clusters) > 0 {
		out.WriteString("\n")
	}
	fmt.Fprintf(&out, "%s (%s). %s\n", canRemoveAnswer(report), report.Why, leaveRule)
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("writing the verdict: %w", err)
	}
	return nil
}

// canRemoveAnswer is the verdict in words.
func canRemoveAnswer(report *v1alpha1.CanRemoveReport) string {
	switch report.Verdict {
	case v1alpha1.LeaveClear:
		return "As far as these clusters are concerned, it may leave the manifest"
	case v1alpha1.LeaveNotConcerned:
		return "These clusters are not concerned: none has it"
	case v1alpha1.LeaveUnknown:
		return "Not known whether it may leave the manifest"
	case v1alpha1.LeaveBlocked:
	}
	return "It must not leave the manifest yet"
}

// canRemoveTable has a row for each version of each cluster.
func canRemoveTable(report *v1alpha1.CanRemoveReport) Table {
	table := Table{Columns: []Column{
		{Header: "CONTEXT"}, {Header: "CRD"}, {Header: "VERSION"}, {Header: "STORED"}, {Header: "SERVED"}, {Header: "USED"},
		{Header: "OBJECTS", Wide: true}, {Header: "VERDICT"},
	}}
	problems := false
	for _, one := range report.Clusters {
		problems = problems || one.Error != "" || one.SameAs != ""
	}
	for _, item := range report.Items {
		problems = problems || item.Why != ""
	}
	if problems {
		table.Columns = append(table.Columns, Column{Header: "WHY"})
	}
	table.Rows = canRemoveRows(report)
	return table
}

// canRemoveRows are the rows of the items and of the clusters without any, in the
// order of the clusters, unless the items were sorted by something else.
func canRemoveRows(report *v1alpha1.CanRemoveReport) [][]string {
	var rows [][]string
	left := report.Items
	for _, one := range report.Clusters {
		has := slices.ContainsFunc(report.Items, func(item v1alpha1.CanRemoveItem) bool { return item.Context == one.Context })
		if !has {
			rows = append(rows, clusterRow(one))
			continue
		}
		for len(left) > 0 && left[0].Context == one.Context {
			rows, left = append(rows, canRemoveRow(left[0])), left[1:]
		}
	}
	for _, item := range left {
		rows = append(rows, canRemoveRow(item))
	}
	return rows
}

// clusterRow is the row of a cluster that has nothing to say of the version.
func clusterRow(one v1alpha1.FleetCluster) []string {
	cell, verdict, why := None, string(v1alpha1.LeaveNotConcerned), ""
	switch {
	case one.SameAs != "":
		verdict, why = None, "the same cluster as "+one.SameAs
	case one.Error != "":
		cell, verdict, why = Unknown, string(v1alpha1.LeaveUnknown), one.Error
	}
	return []string{one.Context, cell, cell, cell, cell, cell, cell, verdict, why}
}

func canRemoveRow(item v1alpha1.CanRemoveItem) []string {
	objects, served := "", ""
	if item.Served != nil {
		served = Bool(item.Served)
	}
	if item.Objects != nil {
		objects = fmt.Sprint(*item.Objects)
	}
	return []string{
		item.Context, item.CRD, item.Version, storedCell(item), served, string(item.Usage), objects, string(item.Verdict), item.Why,
	}
}

// storedCell says whether objects are stored at a version, and what that rests on.
func storedCell(item v1alpha1.CanRemoveItem) string {
	switch {
	case item.Stored == nil:
		return ""
	case *item.Stored:
		return "yes"
	}
	switch item.Proof {
	case v1alpha1.ProofVerified, v1alpha1.ProofNoObjects, v1alpha1.ProofClaimed:
		return fmt.Sprintf("no (%s)", item.Proof)
	case v1alpha1.ProofUntrusted:
		return "unknown"
	case v1alpha1.ProofListed, v1alpha1.ProofMet:
	}
	return "no"
}

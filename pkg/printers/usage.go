package printers

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

// maxRows is how many rows of a source a version gets; wide shows all.
const maxRows = 10

// WriteUsage writes for people who uses versions: one table of the evidence, the
// verdict of each version, and what was not looked at.
func WriteUsage(w io.Writer, report *v1alpha1.UsageReport, options TableOptions) error {
	var out strings.Builder
	table, left := usageTable(report, options.Wide)
	if err := table.Print(&out, options); err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintf(&out, "%s more: -o wide shows all\n", english.Plural(left, "row"))
	}
	if len(table.Rows) > 0 {
		out.WriteString("\n")
	}
	for _, item := range report.Items {
		fmt.Fprintf(&out, "%s %s: %s\n", Escape(item.CRD), Escape(item.Version), verdictText(item))
		for _, note := range item.Notes {
			fmt.Fprintf(&out, "  %s\n", Escape(note))
		}
	}
	writeUnlooked(&out, report.Items)
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("writing the usage: %w", err)
	}
	return nil
}

func verdictText(item v1alpha1.VersionUsage) string {
	return fmt.Sprintf("%s (%s)", item.Verdict, Escape(item.Why))
}

// usageTable returns the evidence of all versions, with the columns that tell them
// apart where there are several, and how many rows were left out.
func usageTable(report *v1alpha1.UsageReport, wide bool) (table Table, left int) {
	crds, versions := map[string]bool{}, map[string]bool{}
	for _, item := range report.Items {
		crds[item.CRD], versions[item.Version] = true, true
	}
	table = Table{Columns: []Column{
		{Header: "CRD", Wide: len(crds) < 2}, {Header: "VERSION", Wide: len(versions) < 2},
		{Header: "WHO"}, {Header: "WHAT"}, {Header: "COUNT"}, {Header: "LAST-SEEN"}, {Header: "SOURCE"}, {Header: "PROVES"},
		{Header: "NOTE", Wide: true}, {Header: "EXAMPLES", Wide: true},
	}}
	for i, item := range report.Items {
		rows, more := evidenceRows(report, i, wide)
		table.Rows, left = append(table.Rows, rows...), left+more
		if i+1 == len(report.Items) || report.Items[i+1].CRD != item.CRD {
			table.Rows = append(table.Rows, capabilityRows(report, item.CRD)...)
		}
	}
	return table, left
}

// evidenceRows returns the rows of one version, of each source only the first few
// unless all are wanted. Capabilities are of all versions: they come once for the CRD.
func evidenceRows(report *v1alpha1.UsageReport, at int, wide bool) (rows [][]string, left int) {
	item := report.Items[at]
	shown := map[v1alpha1.UsageSource]int{}
	for _, evidence := range item.Evidence {
		if evidence.Source == v1alpha1.UsageRBAC {
			continue
		}
		if shown[evidence.Source]++; shown[evidence.Source] > maxRows && !wide {
			left++
			continue
		}
		rows = append(rows, evidenceRow(report, item.CRD, item.Version, evidence))
	}
	return rows, left
}

func capabilityRows(report *v1alpha1.UsageReport, crd string) [][]string {
	version, items := "", 0
	for _, item := range report.Items {
		if item.CRD == crd {
			version = item.Version
			items++
		}
	}
	label := version
	if items > 1 {
		label = "any"
	}
	var rows [][]string
	for _, item := range report.Items {
		if item.CRD != crd || item.Version != version {
			continue
		}
		for _, evidence := range item.Evidence {
			if evidence.Source == v1alpha1.UsageRBAC {
				rows = append(rows, evidenceRow(report, crd, label, evidence))
			}
		}
	}
	return rows
}

// countOf returns "2 objects" or "1 object" of a word that is in the plural.
func countOf(n int64, of string) string {
	return english.Plural(n, strings.TrimSuffix(of, "s"))
}

func evidenceRow(report *v1alpha1.UsageReport, crd, version string, e v1alpha1.UsageEvidence) []string {
	what := e.What
	if e.Subresource != "" {
		what += " " + e.Subresource
	}
	count := ""
	if e.Count > 0 {
		count = countOf(e.Count, e.CountOf)
	}
	last := ""
	if e.LastSeen != nil {
		last = age(report.Time.Sub(e.LastSeen.Time))
	}
	proves := string(e.Proves)
	if e.Stale {
		proves += " (stale)"
	}
	return []string{crd, version, who(e), what, count, last, string(e.Source), proves, usageNote(e), strings.Join(e.Examples, ", ")}
}

// age is how long ago something was, as in kubectl; a clock that is ahead of ours
// makes it now.
func age(ago time.Duration) string { return duration.HumanDuration(max(ago, 0)) }

// writeUnlooked lists what was not looked at, once for all versions of a CRD that
// have the same.
func writeUnlooked(out *strings.Builder, items []v1alpha1.VersionUsage) {
	crds := map[string]bool{}
	for _, item := range items {
		crds[item.CRD] = true
	}
	for i, item := range items {
		if len(item.NotLooked) == 0 || i > 0 && items[i-1].CRD == item.CRD && slices.Equal(items[i-1].NotLooked, item.NotLooked) {
			continue
		}
		of := ""
		if len(crds) > 1 {
			of = " of " + Escape(item.CRD)
		}
		fmt.Fprintf(out, "\nNot looked at%s:\n", of)
		for _, missing := range item.NotLooked {
			fmt.Fprintf(out, "  %s: %s\n", Escape(string(missing.Source)), Escape(missing.Why))
			if missing.Command != "" {
				fmt.Fprintf(out, "    %s\n", Escape(missing.Command))
			}
		}
	}
}

package printers

import (
	"fmt"
	"io"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

// ClusterUsage is who uses versions on one of several clusters.
type ClusterUsage struct {
	Context string
	Report  *v1alpha1.UsageReport
}

// WriteClusterUsage writes the evidence of several clusters in one table, and what
// was not looked at.
func WriteClusterUsage(w io.Writer, clusters []ClusterUsage, options TableOptions) error {
	var out, missing strings.Builder
	var all Table
	left := 0
	for _, one := range clusters {
		table, more := usageTable(one.Report, options.Wide)
		if all.Columns == nil {
			all.Columns = append([]Column{{Header: "CONTEXT"}}, table.Columns...)
			all.Columns[1].Wide, all.Columns[2].Wide = false, false
		}
		left += more
		for _, row := range table.Rows {
			all.Rows = append(all.Rows, append([]string{one.Context}, row...))
		}
		var unlooked strings.Builder
		writeUnlooked(&unlooked, one.Report.Items)
		if text := strings.TrimPrefix(unlooked.String(), "\nNot looked at"); text != unlooked.String() {
			fmt.Fprintf(&missing, "\nNot looked at on %s%s", Escape(one.Context), text)
		}
	}
	if len(all.Rows) > 0 {
		out.WriteString("\n")
	}
	if err := all.Print(&out, options); err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintf(&out, "%s more: -o wide shows all\n", english.Plural(left, "row"))
	}
	if _, err := io.WriteString(w, out.String()+missing.String()); err != nil {
		return fmt.Errorf("writing the usage: %w", err)
	}
	return nil
}

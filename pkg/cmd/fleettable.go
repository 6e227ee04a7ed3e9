package cmd

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/crdver/kubectl-crdver/pkg/printers"
)

// fleetRow is one row of the table of many clusters.
type fleetRow struct {
	context string
	// item is what custom columns and --sort-by see, together with the context; nil
	// for a cluster that has none.
	item any
	// cells are those of the table of one cluster.
	cells []string
	// problem says what is the matter with the cluster.
	problem string
	name    string
}

// MarshalJSON puts the context into the item.
func (r fleetRow) MarshalJSON() ([]byte, error) {
	content := map[string]any{}
	if r.item != nil {
		text, err := json.Marshal(r.item)
		if err != nil {
			return nil, fmt.Errorf("encoding a row: %w", err)
		}
		if err := json.Unmarshal(text, &content); err != nil {
			return nil, fmt.Errorf("encoding a row: %w", err)
		}
	}
	content["context"] = r.context
	if r.problem != "" {
		content["problem"] = r.problem
	}
	return json.Marshal(content) //nolint:wrapcheck // it is encoding/json that asks
}

// fleetTable is the table of one cluster, for many.
type fleetTable struct {
	columns []printers.Column
	rows    []fleetRow
}

// addRows adds the rows of one cluster, or the one that says why there are none.
func addRows[T any](t *fleetTable, one answer[T], nothing string, rows func(T) []fleetRow) {
	problem, known := "", printers.None
	switch {
	case one.SameAs != "":
		problem = "the same cluster as " + one.SameAs
	case one.err != nil:
		problem, known = one.Error, printers.Unknown
	}
	if problem == "" {
		found := rows(one.value)
		for i := range found {
			found[i].context, found[i].problem = one.Context, one.Note
		}
		t.rows = append(t.rows, found...)
		for _, name := range one.NotFound {
			t.rows = append(t.rows, fleetRow{context: one.Context, cells: append([]string{name}, t.filled(printers.None)[1:]...), problem: "there is no such CRD"})
		}
		if len(found) > 0 || len(one.NotFound) > 0 {
			return
		}
		problem = nothing
	}
	t.rows = append(t.rows, fleetRow{context: one.Context, cells: t.filled(known), problem: problem})
}

// filled returns a row of the same text.
func (t *fleetTable) filled(text string) []string {
	return slices.Repeat([]string{text}, len(t.columns))
}

// table returns the table, with a column for problems if there are any.
func (t *fleetTable) table() printers.Table {
	table := printers.Table{Columns: append([]printers.Column{{Header: "CONTEXT"}}, t.columns...)}
	problems := slices.ContainsFunc(t.rows, func(row fleetRow) bool { return row.problem != "" })
	if problems {
		table.Columns = append(table.Columns, printers.Column{Header: "PROBLEM"})
	}
	for _, row := range t.rows {
		cells := append([]string{row.context}, row.cells...)
		if problems {
			cells = append(cells, row.problem)
		}
		table.Rows = append(table.Rows, cells)
	}
	return table
}

// into puts the rows into a document.
func (t *fleetTable) into(document *printers.Document) {
	document.Table = t.table()
	for _, row := range t.rows {
		document.Items = append(document.Items, row)
		if row.name != "" {
			document.Names = append(document.Names, row.name)
		}
	}
}

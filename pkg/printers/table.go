package printers

import (
	"bytes"
	"fmt"
	"io"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// The cells that stand for "there is none" and "it is not known", as in kubectl.
const (
	None    = "<none>"
	Unknown = "<unknown>"
)

// columnGap is what kubectl puts between columns.
const columnGap = "   "

// Column is one column of a table.
type Column struct {
	// Header is in upper case and has no spaces.
	Header string
	// Wide says that the column is only shown in the format wide.
	Wide bool
}

// Table is a table without borders, as kubectl prints it. Cells may hold any
// text: they are cut at a line break and escaped, and an empty one is <none>.
type Table struct {
	Columns []Column
	// Rows have one cell for each column, wide ones included.
	Rows [][]string
}

// TableOptions says how a table is printed.
type TableOptions struct {
	Wide      bool
	NoHeaders bool
	// Indent is put before each line.
	Indent string
}

// Print writes the table. One without rows prints nothing, not even headers.
func (t Table) Print(w io.Writer, o TableOptions) error {
	if len(t.Rows) == 0 {
		return nil
	}
	var out bytes.Buffer
	table := newTable(&out)
	if !o.NoHeaders {
		headers := make([]string, 0, len(t.Columns))
		for _, column := range t.Columns {
			headers = append(headers, column.Header)
		}
		table.Header(t.visible(headers, o.Wide))
	}
	for _, row := range t.Rows {
		if err := table.Append(t.visible(row, o.Wide)); err != nil {
			return fmt.Errorf("building the table: %w", err)
		}
	}
	if err := table.Render(); err != nil {
		return fmt.Errorf("building the table: %w", err)
	}
	// Tablewriter pads the last column, too.
	for line := range bytes.Lines(out.Bytes()) {
		if _, err := fmt.Fprintf(w, "%s%s\n", o.Indent, bytes.TrimRight(line, " \n")); err != nil {
			return fmt.Errorf("writing the table: %w", err)
		}
	}
	return nil
}

// visible returns the cells of the columns that are shown, ready to print.
func (t Table) visible(cells []string, wide bool) []string {
	var visible []string
	for i, column := range t.Columns {
		if column.Wide && !wide {
			continue
		}
		text := ""
		if i < len(cells) {
			text = cell(cells[i])
		}
		if text == "" {
			text = None
		}
		visible = append(visible, text)
	}
	return visible
}

// newTable returns a tablewriter that draws nothing but the cells and changes
// none of them.
func newTable(w io.Writer) *tablewriter.Table {
	cells := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Alignment:  tw.CellAlignment{Global: tw.AlignLeft},
		Padding:    tw.CellPadding{Global: tw.Padding{Right: columnGap, Overwrite: true}},
	}
	return tablewriter.NewTable(w,
		tablewriter.WithConfig(tablewriter.Config{
			Header:   cells,
			Row:      cells,
			Behavior: tw.Behavior{TrimSpace: tw.Off},
		}),
		// The width of a character must not depend on the language of the machine.
		tablewriter.WithEastAsian(tw.Off),
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders: tw.BorderNone,
			Symbols: tw.NewSymbols(tw.StyleNone),
			Settings: tw.Settings{
				Lines:      tw.LinesNone,
				Separators: tw.SeparatorsNone,
			},
		})),
	)
}

package printers

import (
	"fmt"
	"io"
	"strings"
)

// Description is one thing in detail, as "kubectl describe" shows it: fields
// with a name and one or more lines, and tables.
type Description struct {
	fields []field
}

type field struct {
	name  string
	lines []string
	table *Table
}

// Add adds a field with a line for each value; without values it is <none>.
func (d *Description) Add(name string, values ...string) {
	if len(values) == 0 {
		values = []string{None}
	}
	d.fields = append(d.fields, field{name: name, lines: values})
}

// AddIf adds a field unless it has no values.
func (d *Description) AddIf(name string, values ...string) {
	if len(values) > 0 {
		d.Add(name, values...)
	}
}

// AddTable adds a table under a name.
func (d *Description) AddTable(name string, table Table) {
	d.fields = append(d.fields, field{name: name, table: &table})
}

// Print writes the description.
func (d *Description) Print(w io.Writer) error {
	width := 0
	for _, f := range d.fields {
		if f.table == nil {
			width = max(width, len(f.name)+len(":  "))
		}
	}
	for _, f := range d.fields {
		if err := f.print(w, width); err != nil {
			return fmt.Errorf("writing the description: %w", err)
		}
	}
	return nil
}

func (f field) print(w io.Writer, width int) error {
	if f.table != nil {
		if _, err := fmt.Fprintf(w, "%s:\n", f.name); err != nil {
			return err //nolint:wrapcheck // Print wraps it.
		}
		return f.table.Print(w, TableOptions{Wide: true, Indent: "  "})
	}
	name := f.name + ":"
	for _, line := range f.lines {
		text := cell(line)
		if text == "" {
			text = None
		}
		if _, err := fmt.Fprintf(w, "%-*s%s\n", width, name, text); err != nil {
			return err //nolint:wrapcheck // Print wraps it.
		}
		name = ""
	}
	return nil
}

// List joins names with commas, in the order they have; none is <none>.
func List(names []string) string {
	if len(names) == 0 {
		return None
	}
	return strings.Join(names, ",")
}

// Bool is a cell for a boolean that may be unknown.
func Bool(value *bool) string {
	switch {
	case value == nil:
		return Unknown
	case *value:
		return "true"
	default:
		return "false"
	}
}

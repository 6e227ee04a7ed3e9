package testbed

import (
	"slices"
	"strings"
)

// MissingRows returns those rows that a table does not have, whatever the widths
// of its columns are. A row may be the beginning of one.
func MissingRows(table string, rows ...string) []string {
	var squeezed []string
	for line := range strings.Lines(table) {
		squeezed = append(squeezed, strings.Join(strings.Fields(line), " "))
	}
	var missing []string
	for _, row := range rows {
		if !slices.ContainsFunc(squeezed, func(line string) bool { return strings.HasPrefix(line, row) }) {
			missing = append(missing, row)
		}
	}
	return missing
}

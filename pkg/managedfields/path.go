package managedfields

import (
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// render writes a path as "spec.ports[*].name". The path's own String has the
// keys of list items and the items of sets, which are values of the object and
// are not printed.
func render(path fieldpath.Path) string {
	var text strings.Builder
	for i, element := range path {
		if element.FieldName == nil {
			text.WriteString("[*]")
			continue
		}
		if i > 0 {
			text.WriteByte('.')
		}
		text.WriteString(*element.FieldName)
	}
	return text.String()
}

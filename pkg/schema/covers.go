package schema

import (
	"maps"
	"reflect"
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// Unproven returns the paths at which this schema may drop or change a value that
// another one keeps, when an object is written: because a field is missing, or of
// another type, keeps less of what it does not describe, or no null, has another
// default, or is an embedded resource for one of them only. It is a walk through the
// schemas, and errs on the side of caution: without any path, what the other schema
// keeps, this one keeps as it is. [Schema.Missing] is exact for the fields that it
// names, and says nothing of the rest.
func (s *Schema) Unproven(other *Schema) []string {
	from, to := other.root, s.root
	switch {
	case from == nil || from == to || reflect.DeepEqual(from, to):
		return nil // Without a schema nothing is kept.
	case to == nil:
		return s.Missing(other)
	}
	c := covering{paths: map[string]bool{}}
	c.node("", from, to, false, false)
	return slices.Sorted(maps.Keys(c.paths))
}

// covering collects the paths.
type covering struct{ paths map[string]bool }

func (c *covering) add(path string) {
	if path == "" {
		path = "*"
	}
	c.paths[path] = true
}

// node compares the schemas of one value. Preserving what is not described is
// inherited by list items (pruning: skipPrune).
func (c *covering) node(path string, from, to *structuralschema.Structural, fromKeeps, toKeeps bool) {
	fromKeeps, toKeeps = fromKeeps || from.XPreserveUnknownFields, toKeeps || to.XPreserveUnknownFields
	if from.Type != to.Type || from.XIntOrString != to.XIntOrString || from.XEmbeddedResource != to.XEmbeddedResource ||
		from.Nullable && !to.Nullable ||
		from.Default.Object != nil && !reflect.DeepEqual(from.Default.Object, to.Default.Object) {
		c.add(path)
		return
	}
	if fromKeeps && !toKeeps {
		c.add(below(path, "*"))
	}
	c.fields(path, from, to, fromKeeps, toKeeps)
	c.values(path, from, to, fromKeeps, toKeeps)
	switch {
	case from.Items != nil && to.Items != nil:
		c.node(path+"[*]", from.Items, to.Items, fromKeeps, toKeeps)
	case from.Items != to.Items:
		c.add(path + "[*]")
	}
}

// fields compares the named fields.
func (c *covering) fields(path string, from, to *structuralschema.Structural, fromKeeps, toKeeps bool) {
	for name, field := range from.Properties {
		if path == "" && metaField(name) {
			continue
		}
		at := below(path, name)
		known, ok := to.Properties[name]
		switch {
		case ok:
			c.node(at, &field, &known, false, false)
		case to.AdditionalProperties != nil && to.AdditionalProperties.Structural != nil:
			c.node(at, &field, to.AdditionalProperties.Structural, false, false)
		case to.AdditionalProperties != nil || !toKeeps:
			c.add(at)
		}
	}
	for name := range to.Properties {
		// What the first schema keeps without describing it may be anything.
		_, known := from.Properties[name]
		if !known && (path != "" || !metaField(name)) && (fromKeeps || from.AdditionalProperties != nil) {
			c.add(below(path, name))
		}
	}
}

// values compares the values of maps.
func (c *covering) values(path string, from, to *structuralschema.Structural, fromKeeps, toKeeps bool) {
	a, b := from.AdditionalProperties, to.AdditionalProperties
	switch {
	case a == nil && b == nil:
	case a == nil:
		if fromKeeps {
			c.add(path + "[*]")
		}
	case b == nil:
		if !toKeeps || len(to.Properties) > 0 {
			c.add(path + "[*]")
		}
	case a.Structural != nil && b.Structural != nil:
		c.node(path+"[*]", a.Structural, b.Structural, false, false)
	case a.Structural != b.Structural || a.Bool != b.Bool:
		c.add(path + "[*]")
	}
}

func below(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

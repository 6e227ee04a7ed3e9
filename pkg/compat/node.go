package compat

import (
	"maps"
	"reflect"
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

const (
	// absent is what a schema says of a field that it does not have.
	absent = "no such field"
	// none is what it says where it asks for nothing.
	none = "none"
)

// comparison walks through two schemas at once.
type comparison struct {
	differences []Difference
}

func (c *comparison) add(d Difference) { c.differences = append(c.differences, d) }

// node compares the schemas of one value.
func (c *comparison) node(path string, from, to *structuralschema.Structural) {
	if a, b := typeName(from), typeName(to); a != b {
		c.add(Difference{Path: path, Kind: KindType, From: a, To: b, Narrows: !widens(a, b)})
		if !widens(a, b) {
			return // Nothing below has a counterpart.
		}
	}
	if from.Nullable && !to.Nullable {
		// The server drops a null from where it may not be, but not out of a list.
		c.add(Difference{Path: path, Kind: KindNullable, From: "nullable", To: "not nullable", Narrows: inList(path)})
	}
	if a, b := from.Default.Object, to.Default.Object; full(a) != full(b) {
		c.add(Difference{Path: path, Kind: KindDefault, From: text(a), To: text(b)})
	}
	c.values(path, validation(from), validation(to), to.XIntOrString)
	c.rules(path, from, to)
	c.lists(path, from, to)
	c.fields(path, from, to)
	if from.Items != nil && to.Items != nil {
		c.node(path+"[*]", from.Items, to.Items)
	}
	c.maps(path, from, to)
}

// fields compares the named fields of objects, and what is required of them.
func (c *comparison) fields(path string, from, to *structuralschema.Structural) {
	for _, name := range slices.Sorted(maps.Keys(from.Properties)) {
		if path == "" && metaField(name) {
			continue
		}
		field := from.Properties[name]
		at := child(path, name)
		if known, ok := to.Properties[name]; ok {
			c.node(at, &field, &known)
		} else if to.AdditionalProperties != nil {
			if values := to.AdditionalProperties.Structural; values != nil {
				c.node(at, &field, values)
			}
		} else if !to.XPreserveUnknownFields {
			c.add(Difference{Path: at, Kind: KindField, From: typeName(&field), To: absent})
			if field.Default.Object != nil {
				c.add(Difference{Path: at, Kind: KindDefault, From: text(field.Default.Object), To: absent})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(to.Properties)) {
		if _, known := from.Properties[name]; !known && (path != "" || !metaField(name)) {
			field := to.Properties[name]
			c.newField(child(path, name), from, &field)
		}
	}
	c.required(path, from, to)
}

// newField compares a field that only the second schema names.
func (c *comparison) newField(path string, from, to *structuralschema.Structural) {
	switch {
	case from.AdditionalProperties != nil && from.AdditionalProperties.Structural != nil:
		c.node(path, from.AdditionalProperties.Structural, to)
	case from.AdditionalProperties != nil || from.XPreserveUnknownFields:
		if name := typeName(to); name != anyType {
			c.add(Difference{Path: path, Kind: KindType, From: anyType, To: name, Narrows: true})
		}
	default:
		c.add(Difference{Path: path, Kind: KindNewField, From: absent, To: typeName(to)})
		if to.Default.Object != nil {
			c.add(Difference{Path: path, Kind: KindDefault, From: absent, To: text(to.Default.Object)})
		}
	}
}

// required reports what only the second schema requires. What has a default is
// never missing: defaults are set before objects are validated.
func (c *comparison) required(path string, from, to *structuralschema.Structural) {
	before := map[string]bool{}
	for _, name := range validation(from).Required {
		before[name] = true
	}
	for _, name := range validation(to).Required {
		field := to.Properties[name]
		if before[name] || field.Default.Object != nil || path == "" && metaField(name) {
			continue
		}
		before[name] = true
		was := "optional"
		if _, ok := from.Properties[name]; !ok && from.AdditionalProperties == nil && !from.XPreserveUnknownFields {
			was = absent
		}
		c.add(Difference{Path: child(path, name), Kind: KindRequired, From: was, To: "required", Narrows: true})
	}
}

// maps compares what objects hold besides their named fields.
func (c *comparison) maps(path string, from, to *structuralschema.Structural) {
	if from.XPreserveUnknownFields && !to.XPreserveUnknownFields && to.AdditionalProperties == nil {
		c.add(Difference{Path: child(path, "*"), Kind: KindField, From: anyType, To: absent})
	}
	if from.AdditionalProperties == nil {
		return
	}
	values := from.AdditionalProperties.Structural
	switch {
	case to.AdditionalProperties != nil && to.AdditionalProperties.Structural != nil:
		if values != nil {
			c.node(path+"[*]", values, to.AdditionalProperties.Structural)
		}
	case to.AdditionalProperties == nil && !to.XPreserveUnknownFields:
		c.add(Difference{Path: path + "[*]", Kind: KindField, From: typeName(values), To: absent})
	}
}

// lists compares how the items of a list are told apart.
func (c *comparison) lists(path string, from, to *structuralschema.Structural) {
	a, b := listType(from), listType(to)
	if a == b && reflect.DeepEqual(from.XListMapKeys, to.XListMapKeys) {
		return
	}
	// An atomic list takes what sets and maps refuse: duplicates.
	c.add(Difference{Path: path, Kind: KindListType, From: a, To: b, Narrows: b != atomic})
}

package schema

import (
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Knows reports whether objects of the version can have a field, as pruning
// decides it: what Knows denies, the server drops when it reads or writes an
// object at the version. apiVersion, kind and metadata, and everything in
// metadata, are always known. The path is one of managedFields: a list item is
// known under the keys of the list ("k:") where it is a list of type map, and by
// its value ("v:") where it is a set. In an atomic list and in an atomic map every
// item is known: the server itself turns ownership of the items into ownership
// of the whole, when it meets such a path (ReconcileFieldSetWithSchema).
func (s *Schema) Knows(path fieldpath.Path) bool {
	node := s.start()
	for _, element := range path {
		node = node.descend(element)
	}
	return node.kind != unknown
}

// MapKey reports whether the last element of a path is the key of a map
// (additionalProperties), which a user chose, and not the name of a field.
func (s *Schema) MapKey(path fieldpath.Path) bool {
	if len(path) == 0 || path[len(path)-1].FieldName == nil {
		return false
	}
	node := s.start()
	for _, element := range path[:len(path)-1] {
		node = node.descend(element)
	}
	if node.kind != described || node.schema == nil {
		return false
	}
	if node.resource && metaField(*path[len(path)-1].FieldName) {
		return false
	}
	_, field := node.schema.Properties[*path[len(path)-1].FieldName]
	return !field && node.schema.AdditionalProperties != nil
}

// nodeKind is what a schema says of the value at a path.
type nodeKind int

const (
	// unknown values are pruned.
	unknown nodeKind = iota
	// anything is kept, with all that is in it.
	anything
	// described values are kept, and their fields as the schema says.
	described
)

// node is the place in a schema that a path leads to. Its transitions are those
// of upstream's pruning (prune and skipPrune in apiserver/schema/pruning), with
// paths instead of values.
type node struct {
	kind nodeKind
	// schema can be nil in a described node: a value without fields.
	schema *structuralschema.Structural
	// preserve keeps fields that the schema does not name. It is inherited by
	// list items and ends at a named field (skipPrune).
	preserve bool
	// resource has apiVersion, kind and metadata: the object itself, and
	// x-kubernetes-embedded-resource.
	resource bool
}

func (s *Schema) start() node {
	start := describe(s.root)
	start.resource = true
	return start
}

func describe(schema *structuralschema.Structural) node {
	if schema == nil {
		return node{kind: described}
	}
	return node{
		kind:     described,
		schema:   schema,
		preserve: schema.XPreserveUnknownFields,
		resource: schema.XEmbeddedResource,
	}
}

func (n node) descend(element fieldpath.PathElement) node {
	switch {
	case n.kind != described:
		return n
	case element.FieldName != nil:
		return n.field(*element.FieldName)
	default:
		return n.item(element)
	}
}

func (n node) field(name string) node {
	if n.resource && metaField(name) {
		return node{kind: anything}
	}
	if n.schema != nil {
		if property, ok := n.schema.Properties[name]; ok {
			return describe(&property)
		}
		if n.schema.AdditionalProperties != nil {
			return describe(n.schema.AdditionalProperties.Structural)
		}
	}
	if n.preserve {
		return node{kind: anything}
	}
	return node{kind: unknown}
}

func (n node) item(element fieldpath.PathElement) node {
	switch {
	case n.schema == nil:
		return n // additionalProperties: true keeps values, but no fields in them.
	case n.schema.Items == nil && n.preserve && n.schema.Type == "":
		return node{kind: anything}
	case n.schema.Items == nil:
		return node{kind: unknown}
	}
	if !identifies(element, n.schema) {
		return node{kind: unknown}
	}
	items := describe(n.schema.Items)
	items.preserve = items.preserve || n.preserve
	return items
}

// identifies reports whether items of a list are told apart by an element of
// this kind.
func identifies(element fieldpath.PathElement, list *structuralschema.Structural) bool {
	if list.XListType == nil {
		return true
	}
	switch *list.XListType {
	case "atomic":
		return true
	case "map":
		if element.Key == nil || len(*element.Key) != len(list.XListMapKeys) {
			return false
		}
		for _, key := range *element.Key {
			if !slices.Contains(list.XListMapKeys, key.Name) {
				return false
			}
		}
		return true
	case "set":
		return element.Value != nil
	default:
		return false
	}
}

func metaField(name string) bool {
	return name == "apiVersion" || name == "kind" || name == "metadata"
}

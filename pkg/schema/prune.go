package schema

import (
	"maps"
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
)

// Prune drops from an object what the schema does not know, as the server does
// whenever it reads or writes an object at the version, and returns the paths
// of what it dropped, each once, in order. "[*]" stands for list items and for
// the keys of maps, which are the user's and not printed: upstream's own tracking
// of paths would tell them.
func (s *Schema) Prune(object map[string]any) []string {
	before := runtime.DeepCopyJSON(object)
	pruning.Prune(object, s.root, true)
	dropped := map[string]bool{}
	compare(before, object, s.root, "", dropped)
	return slices.Sorted(maps.Keys(dropped))
}

// Default sets the defaults of the schema in an object.
func (s *Schema) Default(object map[string]any) {
	if s.root != nil {
		defaulting.Default(object, s.root)
	}
}

// Structural returns upstream's form of the schema, to look at; nil for a version
// without a schema.
func (s *Schema) Structural() *structuralschema.Structural { return s.root }

// compare collects the paths that a value lost.
func compare(before, after any, schema *structuralschema.Structural, path string, dropped map[string]bool) {
	switch before := before.(type) {
	case map[string]any:
		after, ok := after.(map[string]any)
		if !ok {
			return
		}
		for name, value := range before {
			field, key := descend(schema, name)
			at := child(path, name)
			if key || name == sampleKey {
				at = path + sampleKey
			}
			if kept, ok := after[name]; ok {
				compare(value, kept, field, at, dropped)
			} else {
				dropped[at] = true
			}
		}
	case []any:
		after, ok := after.([]any)
		if !ok || len(after) != len(before) {
			return
		}
		var items *structuralschema.Structural
		if schema != nil {
			items = schema.Items
		}
		for i := range before {
			compare(before[i], after[i], items, path+"[*]", dropped)
		}
	}
}

// descend returns the schema of a field, and whether its name is a key of a map.
func descend(schema *structuralschema.Structural, name string) (*structuralschema.Structural, bool) {
	if schema == nil {
		return nil, false
	}
	if property, ok := schema.Properties[name]; ok {
		return &property, false
	}
	if schema.AdditionalProperties != nil {
		return schema.AdditionalProperties.Structural, true
	}
	return nil, false
}

// child returns the path of a field.
func child(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

package schema

import (
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

const (
	// sampleKey is the key of a map in a sample. No name of a field looks like
	// it, and it is how paths write "any key".
	sampleKey = "[*]"
	// sampleUnknown is a field that a schema preserves without describing it.
	sampleUnknown = "*"
)

// Sample returns an object that has every field of the schema once: one item in
// each list, one key in each map, and one made-up field wherever unknown fields
// are preserved. It is as large as the schema, and has no apiVersion, kind and
// metadata. It need not be valid: what pruning does to it depends on its
// structure alone.
func (s *Schema) Sample() map[string]any {
	if s.root == nil {
		return map[string]any{}
	}
	object := sampleFields(s.root)
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(object, name)
	}
	return object
}

func sampleFields(schema *structuralschema.Structural) map[string]any {
	object := map[string]any{}
	for name, property := range schema.Properties {
		object[name] = sampleValue(&property)
	}
	if values := schema.AdditionalProperties; values != nil {
		object[sampleKey] = sampleValue(values.Structural)
	}
	if schema.XPreserveUnknownFields {
		object[sampleUnknown] = ""
	}
	return object
}

func sampleValue(schema *structuralschema.Structural) any {
	switch {
	case schema == nil:
		return "" // additionalProperties: true
	case schema.ValueValidation != nil && len(schema.ValueValidation.Enum) > 0 && len(schema.Properties) == 0 && schema.Items == nil:
		return schema.ValueValidation.Enum[0].Object
	}
	switch schema.Type {
	case "array":
		if schema.Items == nil {
			return []any{}
		}
		return []any{sampleValue(schema.Items)}
	case "integer":
		return int64(0)
	case "number":
		return float64(0)
	case "boolean":
		return false
	case "string":
		return ""
	case "object":
		return sampleFields(schema)
	}
	switch {
	case schema.XIntOrString:
		return int64(0)
	case schema.Items != nil:
		return []any{sampleValue(schema.Items)}
	default:
		return sampleFields(schema)
	}
}

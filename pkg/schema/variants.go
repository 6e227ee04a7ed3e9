package schema

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
)

// Variant is an object that was made up from a schema.
type Variant struct {
	// Name says what is special about it: "without spec.image".
	Name   string
	Object map[string]any
}

// maxDepth bounds how deep made-up objects are; no schema is deeper in earnest.
const maxDepth = 24

// Variants returns objects that show what becomes of each field of the schema: one
// with every field, one with the required ones only, and the former with each
// optional field in turn absent, empty, at its default, at each value of its enum,
// as the other kind of int-or-string, with unknown fields where they are preserved.
// There are at most limit of them, fields nearest to the root first; left is how
// many more there could be. They have no apiVersion, kind and metadata. Most are
// valid, but not where a pattern or a rule asks for more than a guess can give.
func (s *Schema) Variants(limit int) (variants []Variant, left int) {
	if s.root == nil {
		return []Variant{{Name: "no fields", Object: map[string]any{}}}, 0
	}
	full := fullFields(s.root, 0)
	required := requiredFields(s.root, 0)
	for _, object := range []map[string]any{full, required} {
		for _, name := range []string{"apiVersion", "kind", "metadata"} {
			delete(object, name)
		}
	}
	variants = []Variant{{Name: "every field", Object: full}, {Name: "required fields only", Object: required}}
	for _, c := range changes(s.root) {
		if len(variants) >= limit {
			left++
			continue
		}
		object := runtime.DeepCopyJSON(full)
		if c.apply(object) {
			variants = append(variants, Variant{Name: c.name, Object: object})
		}
	}
	return variants, left
}

// largeInteger is the first that a float64 cannot hold.
const largeInteger = 1<<53 + 1

// step is a field, or, with an empty name, the first item of a list.
type step struct{ name string }

// change makes one variant of the full object.
type change struct {
	name   string
	path   []step
	value  any
	remove bool
}

// apply changes the value at the path and reports whether it is there.
func (c change) apply(object map[string]any) bool {
	var at any = object
	for _, s := range c.path[:len(c.path)-1] {
		switch value := at.(type) {
		case map[string]any:
			at = value[s.name]
		case []any:
			if len(value) == 0 {
				return false
			}
			at = value[0]
		default:
			return false
		}
	}
	last := c.path[len(c.path)-1]
	switch value := at.(type) {
	case map[string]any:
		if c.remove {
			delete(value, last.name)
		} else {
			value[last.name] = runtime.DeepCopyJSONValue(c.value)
		}
		return true
	case []any:
		if len(value) == 0 || c.remove {
			return false
		}
		value[0] = runtime.DeepCopyJSONValue(c.value)
		return true
	}
	return false
}

// visit is a field that is still to be looked at.
type visit struct {
	text   string
	path   []step
	schema *structuralschema.Structural
	// optional says that the field may be absent.
	optional bool
}

// changes returns the changes of all fields of a schema, breadth first.
func changes(root *structuralschema.Structural) []change {
	var all []change
	queue := fieldsOf(visit{schema: root})
	queue = slices.DeleteFunc(queue, func(v visit) bool { return metaField(v.text) })
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		all = append(all, v.changes()...)
		if len(v.path) < maxDepth {
			queue = append(queue, fieldsOf(v)...)
		}
	}
	return all
}

// fieldsOf returns what is in a value: fields, the value of a map, an item.
func fieldsOf(v visit) []visit {
	var inner []visit
	below := func(text string, s step, schema *structuralschema.Structural, optional bool) {
		if v.text != "" && s.name != sampleMapKey && s.name != "" {
			text = v.text + "." + text
		} else if v.text != "" {
			text = v.text + text
		}
		inner = append(inner, visit{text: text, path: append(slices.Clone(v.path), s), schema: schema, optional: optional})
	}
	for _, name := range slices.Sorted(maps.Keys(v.schema.Properties)) {
		property := v.schema.Properties[name]
		below(name, step{name}, &property, !slices.Contains(requiredNames(v.schema), name))
	}
	if values := v.schema.AdditionalProperties; values != nil && values.Structural != nil {
		below("[*]", step{sampleMapKey}, values.Structural, false)
	}
	if v.schema.Items != nil {
		below("[*]", step{}, v.schema.Items, false)
	}
	return inner
}

// sampleMapKey and sampleUnknownField are names that users could choose.
const (
	sampleMapKey       = "key"
	sampleUnknownField = "crdverUnknownField"
)

func (v visit) changes() []change {
	var all []change
	add := func(name string, value any) {
		all = append(all, change{name: name, path: v.path, value: value})
	}
	if v.optional {
		all = append(all, change{name: "without " + v.text, path: v.path, remove: true})
	}
	if empty := emptyValue(v.schema); empty != nil {
		add("empty "+v.text, empty)
	}
	if value := v.schema.Default.Object; value != nil {
		add("default "+v.text, value)
	}
	if validation := v.schema.ValueValidation; validation != nil && len(validation.Enum) > 1 {
		for i, value := range validation.Enum[1:] {
			add(fmt.Sprintf("enum value %d of %s", i+2, v.text), value.Object)
		}
	}
	if v.schema.XIntOrString {
		add("text "+v.text, textOfIntOrString(v.schema))
	}
	if s := v.schema; s.Type == "integer" && (s.ValueValidation == nil || s.ValueValidation.Maximum == nil && s.ValueValidation.Format != "int32") {
		add("large "+v.text, int64(largeInteger))
	}
	if v.schema.Nullable {
		add("null "+v.text, nil)
	}
	return all
}

// emptyValue returns the empty value of a type, or nil where it has none or the
// schema does not allow it.
func emptyValue(s *structuralschema.Structural) any {
	v := s.ValueValidation
	if v == nil {
		v = &structuralschema.ValueValidation{}
	}
	switch {
	case len(v.Enum) > 0:
		return nil
	case s.Type == "array" && (v.MinItems == nil || *v.MinItems == 0):
		return []any{}
	case s.Type == "object" && len(v.Required) == 0 && (v.MinProperties == nil || *v.MinProperties == 0):
		return map[string]any{}
	case s.Type == "string" && fits("", v):
		return ""
	case s.Type == "boolean":
		return false
	case s.Type == "integer" && inRange(0, v):
		return int64(0)
	case s.Type == "number" && inRange(0, v):
		return float64(0)
	}
	return nil
}

func requiredNames(s *structuralschema.Structural) []string {
	if s.ValueValidation == nil {
		return nil
	}
	return s.ValueValidation.Required
}

// fullFields returns an object with every field.
func fullFields(s *structuralschema.Structural, depth int) map[string]any {
	object := map[string]any{}
	for name, property := range s.Properties {
		object[name] = fullValue(&property, depth+1)
	}
	if values := s.AdditionalProperties; values != nil {
		if values.Structural != nil {
			object[sampleMapKey] = fullValue(values.Structural, depth+1)
		} else {
			object[sampleMapKey] = "value"
		}
	}
	if s.XPreserveUnknownFields {
		object[sampleUnknownField] = map[string]any{"inner": []any{"value"}}
	}
	if s.XEmbeddedResource {
		object["apiVersion"], object["kind"] = "v1", "ConfigMap"
		object["metadata"] = map[string]any{"name": "embedded", "labels": map[string]any{"app": "embedded"}}
	}
	return object
}

// requiredFields returns an object with the required fields only.
func requiredFields(s *structuralschema.Structural, depth int) map[string]any {
	object := map[string]any{}
	for _, name := range requiredNames(s) {
		property, ok := s.Properties[name]
		switch {
		case !ok:
		case property.Type == "object" && depth < maxDepth:
			object[name] = requiredFields(&property, depth+1)
		default:
			object[name] = fullValue(&property, depth+1)
		}
	}
	if s.XEmbeddedResource {
		object["apiVersion"], object["kind"] = "v1", "ConfigMap"
	}
	return object
}

// fullValue returns a value that is neither empty nor the default, if it can.
func fullValue(s *structuralschema.Structural, depth int) any {
	v := s.ValueValidation
	if v == nil {
		v = &structuralschema.ValueValidation{}
	}
	switch {
	case depth > maxDepth:
		return nil
	case len(v.Enum) > 0:
		return v.Enum[0].Object
	case s.XIntOrString:
		return int64(max(1, ceiling(v.Minimum)))
	}
	switch s.Type {
	case "array":
		if s.Items == nil {
			return []any{}
		}
		return []any{fullValue(s.Items, depth+1)}
	case "integer":
		return int64(number(s, v))
	case "number":
		return number(s, v)
	case "boolean":
		return s.Default.Object != true
	case "string":
		return text(s, v)
	}
	if s.Items != nil {
		return []any{fullValue(s.Items, depth+1)}
	}
	return fullFields(s, depth)
}

func ceiling(f *float64) float64 {
	if f == nil {
		return 0
	}
	return float64(int64(*f + 0.999))
}

// number returns a number within the bounds that is neither 0 nor the default.
func number(s *structuralschema.Structural, v *structuralschema.ValueValidation) float64 {
	low := ceiling(v.Minimum)
	for _, candidate := range []float64{7, 3, 1, low + 1, low} {
		if inRange(candidate, v) && fmt.Sprint(s.Default.Object) != fmt.Sprint(candidate) {
			return candidate
		}
	}
	return low
}

func inRange(f float64, v *structuralschema.ValueValidation) bool {
	switch {
	case v.Minimum != nil && (f < *v.Minimum || v.ExclusiveMinimum && f == *v.Minimum):
		return false
	case v.Maximum != nil && (f > *v.Maximum || v.ExclusiveMaximum && f == *v.Maximum):
		return false
	}
	return true
}

// text returns a text that fits what the schema asks for, as far as a guess can.
func text(s *structuralschema.Structural, v *structuralschema.ValueValidation) string {
	switch v.Format {
	case "date-time":
		return "2026-01-02T03:04:05Z"
	case "date":
		return "2026-01-02"
	case "duration":
		return "1h0m0s"
	case "byte":
		return "dGV4dA=="
	case "ipv4":
		return "192.0.2.1"
	case "uuid":
		return "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
	}
	for _, candidate := range candidates() {
		if candidate != "" && fits(candidate, v) && s.Default.Object != candidate {
			return candidate
		}
	}
	if value, ok := s.Default.Object.(string); ok {
		return value
	}
	return "text"
}

// textOfIntOrString returns a text for a field that can be a number as well.
func textOfIntOrString(s *structuralschema.Structural) string {
	if s.ValueValidation != nil {
		for _, candidate := range append([]string{"1500m", "50%"}, candidates()...) {
			if fits(candidate, s.ValueValidation) {
				return candidate
			}
		}
	}
	return "50%"
}

// candidates are texts of many forms, for patterns.
func candidates() []string {
	return []string{
		"text", "Text", "TEXT", "example.com", "localhost:1234", "https://example.com/path", "1h0m0s", "1Gi", "10m", "1", "12", "123", "1.2.3", "v1.2.3",
		"* * * * *", "*/5 * * * *", "192.0.2.1", "192.0.2.0/24", "/path", "name/name", "2026-01-02", "a", "text-text-text-text-text",
	}
}

// fits reports whether a text has the length and the pattern that are asked for.
func fits(text string, v *structuralschema.ValueValidation) bool {
	if v.MinLength != nil && int64(len(text)) < *v.MinLength || v.MaxLength != nil && int64(len(text)) > *v.MaxLength {
		return false
	}
	if v.Pattern == "" {
		return true
	}
	pattern, err := regexp.Compile(v.Pattern)
	return err == nil && pattern.MatchString(text)
}

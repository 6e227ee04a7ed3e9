package conversion

import (
	"fmt"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/schema"
)

// Difference is one difference in meaning between two forms of an object.
type Difference struct {
	// Path is "spec.ports[*].name"; Change is [v1alpha1.ChangeLost] or one of its kind.
	Path, Change string
	// At is the path with the places of list items and the keys of maps: other
	// than Path, no two differences of an object have the same. It holds what users
	// chose, and is for comparing only.
	At string
	// Before and After are the values; nil where there is none.
	Before, After any
}

// Differences returns how two forms of one object differ in meaning at one
// version, whose schema says what that is: numbers and quantities count by value,
// the order of a list counts unless it is a set or a map, and a null that the
// schema does not allow is the same as nothing. apiVersion is not compared, nor
// what the server keeps for itself: resourceVersion, generation, managedFields.
// Of a value that is there on one side only, only the top is told.
func Differences(before, after map[string]any, known *schema.Schema) []Difference {
	var m meaning
	m.fields(spot{depth: 0, schema: known.Structural()}, before, after)
	return m.found
}

// Within reports whether a place, as in At, is another one or lies in it.
func Within(at, other string) bool {
	rest, ok := strings.CutPrefix(at, other)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// meaning collects differences.
type meaning struct{ found []Difference }

// spot is a place in two objects.
type spot struct {
	path, at string
	depth    int
	schema   *structuralschema.Structural
}

// add notes a difference; an object cannot have more than the report can take.
func (m *meaning) add(s spot, change string, before, after any) {
	if len(m.found) >= maxPaths {
		s.path, s.at = OtherPaths, OtherPaths
		if m.found[len(m.found)-1].At == OtherPaths {
			return
		}
	}
	m.found = append(m.found, Difference{Path: s.path, At: s.at, Change: change, Before: before, After: after})
}

func (m *meaning) values(s spot, before, after any) {
	switch before := before.(type) {
	case map[string]any:
		if after, ok := after.(map[string]any); ok {
			m.fields(s, before, after)
			return
		}
	case []any:
		if after, ok := after.([]any); ok {
			m.lists(s, before, after)
			return
		}
	default:
		if equalScalars(before, after) || equalQuantities(s.schema, before, after) {
			return
		}
	}
	m.add(s, v1alpha1.ChangeChanged, before, after)
}

func (m *meaning) fields(s spot, before, after map[string]any) {
	names := make([]string, 0, len(before))
	for name := range before {
		names = append(names, name)
	}
	for name := range after {
		if _, both := before[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		field := s.field(name)
		if ignoredPath(field.path) || Same(before[name], after[name]) && before[name] != nil {
			continue
		}
		oldValue, was := before[name]
		newValue, is := after[name]
		// The server drops nulls that the schema does not allow, whenever it reads.
		was = was && (oldValue != nil || field.nullable())
		is = is && (newValue != nil || field.nullable())
		switch {
		case was && is:
			m.values(field, oldValue, newValue)
		case was && !emptyMetadata(field.path, oldValue):
			m.add(field, v1alpha1.ChangeLost, oldValue, nil)
		case is && !emptyMetadata(field.path, newValue):
			m.add(field, v1alpha1.ChangeAppeared, nil, newValue)
		}
	}
}

// lists compares lists by position, but sets by their items and maps by the keys
// of their items, if the items can be told apart like that.
func (m *meaning) lists(s spot, before, after []any) {
	item := s
	item.path, item.depth = s.path+"[*]", s.depth+1
	if s.schema != nil {
		item.schema = s.schema.Items
	}
	olds, was := s.keyed(before)
	news, is := s.keyed(after)
	if !was || !is {
		olds, news = byPosition(before), byPosition(after)
	}
	for _, key := range olds.keys {
		item.at = s.at + "[" + key + "]"
		if newItem, ok := news.items[key]; ok {
			m.values(item, olds.items[key], newItem)
		} else {
			m.add(item, v1alpha1.ChangeLost, olds.items[key], nil)
		}
	}
	for _, key := range news.keys {
		item.at = s.at + "[" + key + "]"
		if _, ok := olds.items[key]; !ok {
			m.add(item, v1alpha1.ChangeAppeared, nil, news.items[key])
		}
	}
}

// keyedItems are the items of a list by what tells them apart.
type keyedItems struct {
	keys  []string
	items map[string]any
}

func byPosition(list []any) keyedItems {
	k := keyedItems{items: make(map[string]any, len(list))}
	for i, item := range list {
		key := fmt.Sprint(i)
		k.keys, k.items[key] = append(k.keys, key), item
	}
	return k
}

// keyed returns the items of a set or a map by their values or keys; false where
// the schema does not say that it is one, or where two items are not told apart.
func (s spot) keyed(list []any) (keyedItems, bool) {
	k := keyedItems{items: make(map[string]any, len(list))}
	if s.schema == nil || s.schema.XListType == nil || *s.schema.XListType == "atomic" {
		return k, false
	}
	for _, item := range list {
		key := fmt.Sprintf("=%v", item)
		if *s.schema.XListType == "map" {
			fields, ok := item.(map[string]any)
			if !ok {
				return k, false
			}
			key = ""
			for _, name := range s.schema.XListMapKeys {
				key += fmt.Sprintf("%s=%q,", name, fmt.Sprint(fields[name]))
			}
		}
		if _, twice := k.items[key]; twice {
			return k, false
		}
		k.keys, k.items[key] = append(k.keys, key), item
	}
	return k, true
}

// field returns the spot of a field of an object or of a key of a map.
func (s spot) field(name string) spot {
	field := spot{depth: s.depth + 1}
	field.path, field.at = name, name
	if s.depth > 0 {
		field.path, field.at = s.path+"."+name, s.at+"."+name
	}
	switch s.path {
	case "metadata":
		return field
	case "metadata.labels", "metadata.annotations":
		field.path = s.path + "[" + name + "]" // It has dots of its own.
		field.at = field.path
		return field
	}
	if s.schema == nil {
		return field
	}
	if property, ok := s.schema.Properties[name]; ok {
		field.schema = &property
		return field
	}
	if s.schema.AdditionalProperties != nil {
		field.schema = s.schema.AdditionalProperties.Structural
		field.path, field.at = s.path+"[*]", fmt.Sprintf("%s[%q]", s.at, name)
	}
	return field
}

// nullable reports whether a null is a value of its own.
func (s spot) nullable() bool {
	if s.schema == nil {
		// Where there is no schema, unknown fields are preserved, nulls included;
		// in metadata they mean nothing.
		return !strings.HasPrefix(s.path, "metadata.")
	}
	return s.schema.Nullable
}

func ignoredPath(path string) bool {
	switch path {
	case "apiVersion", "metadata.resourceVersion", "metadata.generation", "metadata.managedFields":
		return true
	}
	return false
}

// emptyMetadata reports whether a value is labels or annotations without any.
func emptyMetadata(path string, value any) bool {
	fields, ok := value.(map[string]any)
	return ok && len(fields) == 0 && (path == "metadata.labels" || path == "metadata.annotations")
}

// equalQuantities compares quantities by value, where the schema says that a
// value is one: 1 and "1000m" are the same there and nowhere else.
func equalQuantities(s *structuralschema.Structural, a, b any) bool {
	if s == nil || !s.XIntOrString || !quantityPattern(s) {
		return false
	}
	one, err := resource.ParseQuantity(fmt.Sprint(a))
	if err != nil {
		return false
	}
	other, err := resource.ParseQuantity(fmt.Sprint(b))
	return err == nil && one.Cmp(other) == 0
}

// quantityPattern reports whether a schema describes a resource.Quantity, as
// controller-gen writes it: with a pattern that has all of its suffixes.
func quantityPattern(s *structuralschema.Structural) bool {
	v := s.ValueValidation
	return v != nil && (v.Format == "quantity" || strings.Contains(v.Pattern, "[KMGTPE]i"))
}

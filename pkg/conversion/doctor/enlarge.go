package doctor

import (
	"maps"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// largeBytes is how much an enlarged object has more.
const largeBytes = 1_500_000

// place is a field that can hold any text.
type place struct {
	path []string
	// rank says how little a webhook has to look at what is in it.
	rank int
}

// enlarge puts a large text where a schema allows one, if possible where nothing
// interprets it, and returns the path; "" if there is no such place.
func enlarge(object map[string]any, root *structuralschema.Structural) string {
	var best *place
	consider := func(p place) {
		if best == nil || p.rank < best.rank {
			best = &p
		}
	}
	if root == nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(root.Properties)) {
		if name != "metadata" && name != "apiVersion" && name != "kind" {
			property := root.Properties[name]
			roomy(&property, []string{name}, consider)
		}
	}
	if best == nil {
		return ""
	}
	fields := object
	for _, name := range best.path[:len(best.path)-1] {
		next, ok := fields[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			fields[name] = next
		}
		fields = next
	}
	fields[best.path[len(best.path)-1]] = strings.Repeat("x", largeBytes)
	return strings.Join(best.path, ".")
}

// roomy calls consider for the fields that can hold any text.
func roomy(s *structuralschema.Structural, path []string, consider func(place)) {
	below := func(name string) []string { return append(slices.Clone(path), name) }
	switch {
	case s.XPreserveUnknownFields:
		consider(place{below("webhookCheck"), 0})
	case s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil && unbounded(s.AdditionalProperties.Structural):
		consider(place{below("webhook-check"), 1})
	case unbounded(s):
		consider(place{path, 2})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		roomy(&property, below(name), consider)
	}
}

// unbounded reports whether a value can be any text.
func unbounded(s *structuralschema.Structural) bool {
	if s.Type != "string" {
		return false
	}
	v := s.ValueValidation
	return v == nil || v.Format == "" && v.Pattern == "" && v.MaxLength == nil && len(v.Enum) == 0
}

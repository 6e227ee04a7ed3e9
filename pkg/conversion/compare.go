package conversion

import (
	"maps"
	"math"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/schema"
)

// OtherPaths stands for the paths of an object, or of a rehearsal, beyond the
// number that is told one by one.
const OtherPaths = "..."

// maxPaths is how many different paths are told one by one.
const maxPaths = 200

// difference is one difference between two objects. It has no values.
type difference struct {
	path   string
	change string
}

// losses returns the differences that take something from an object.
func losses(differences []difference) []difference {
	var lost []difference
	for _, d := range differences {
		if d.change != v1alpha1.ChangeAppeared {
			lost = append(lost, d)
		}
	}
	return lost
}

// compareObjects returns how two forms of one object differ in meaning, without
// repeating a path. Not compared are apiVersion, and what the server keeps for
// itself and a rewrite may change: resourceVersion, generation, managedFields.
// Of a value that is there on one side only, only the top is told.
func compareObjects(before, after map[string]any, schema *schema.Schema) []difference {
	c := comparison{schema: schema, seen: map[difference]bool{}}
	c.fields(nil, before, after)
	return c.found
}

type comparison struct {
	schema *schema.Schema
	seen   map[difference]bool
	found  []difference
}

func (c *comparison) add(path fieldpath.Path, change string) {
	d := difference{path: render(path, c.schema), change: change}
	if len(c.found) >= maxPaths {
		d.path = OtherPaths
	}
	if !c.seen[d] {
		c.seen[d] = true
		c.found = append(c.found, d)
	}
}

func (c *comparison) values(path fieldpath.Path, before, after any) {
	switch before := before.(type) {
	case map[string]any:
		if after, ok := after.(map[string]any); ok {
			c.fields(path, before, after)
			return
		}
	case []any:
		if after, ok := after.([]any); ok {
			c.items(path, before, after)
			return
		}
	default:
		if equalScalars(before, after) {
			return
		}
	}
	c.add(path, v1alpha1.ChangeChanged)
}

func (c *comparison) fields(path fieldpath.Path, before, after map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		field := child(path, name)
		if ignored(field) {
			continue
		}
		if value, ok := after[name]; ok {
			c.values(field, before[name], value)
		} else {
			c.add(field, v1alpha1.ChangeLost)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		field := child(path, name)
		if _, ok := before[name]; !ok && !ignored(field) {
			c.add(field, v1alpha1.ChangeAppeared)
		}
	}
}

// items compares lists by position: neither a rewrite nor the conversion None
// moves items, so that one that moved is a change.
func (c *comparison) items(path fieldpath.Path, before, after []any) {
	item := append(slices.Clone(path), fieldpath.PathElement{Index: new(int)})
	for i := range min(len(before), len(after)) {
		c.values(item, before[i], after[i])
	}
	switch {
	case len(before) > len(after):
		c.add(item, v1alpha1.ChangeLost)
	case len(before) < len(after):
		c.add(item, v1alpha1.ChangeAppeared)
	}
}

func child(path fieldpath.Path, name string) fieldpath.Path {
	return append(slices.Clone(path), fieldpath.PathElement{FieldName: &name})
}

func ignored(path fieldpath.Path) bool {
	switch len(path) {
	case 1:
		return *path[0].FieldName == "apiVersion"
	case 2:
		if path[0].FieldName == nil || *path[0].FieldName != "metadata" || path[1].FieldName == nil {
			return false
		}
		switch *path[1].FieldName {
		case "resourceVersion", "generation", "managedFields":
			return true
		}
	}
	return false
}

// equalScalars compares numbers by value: whether 1 is read as an integer or as
// 1.0 depends on who wrote it, and a webhook may write it the other way.
func equalScalars(a, b any) bool {
	switch a := a.(type) {
	case int64:
		if b, ok := b.(float64); ok {
			return equalNumbers(a, b)
		}
	case float64:
		if b, ok := b.(int64); ok {
			return equalNumbers(b, a)
		}
	}
	return Same(a, b)
}

func equalNumbers(i int64, f float64) bool {
	// Beyond 2^53, float64(i) can equal f although i does not; 2^63 is no int64.
	return f == math.Trunc(f) && f >= math.MinInt64 && f < -math.MinInt64 && int64(f) == i
}

// render writes a path as "spec.ports[*].name". The keys of maps, which users
// choose, collapse to "[*]", too, where the schema says that it is a map.
func render(path fieldpath.Path, schema *schema.Schema) string {
	var text strings.Builder
	for i, element := range path {
		switch {
		case element.FieldName == nil, mapKey(path[:i+1], schema):
			text.WriteString("[*]")
		default:
			if i > 0 {
				text.WriteByte('.')
			}
			text.WriteString(*element.FieldName)
		}
	}
	return text.String()
}

func mapKey(path fieldpath.Path, schema *schema.Schema) bool {
	return schema != nil && schema.MapKey(path)
}

// Package compat compares the schemas of two versions of a CRD: what an object
// that is valid at the one meets at the other.
package compat

import (
	"reflect"

	"github.com/crdver/kubectl-crdver/pkg/schema"
)

// Kind is what a difference is about.
type Kind string

// The kinds of differences. All but the last two are one-way: something is
// reported that the second schema lacks, or asks for and the first does not.
const (
	// KindField is a field that only the first schema has: pruning drops it.
	KindField Kind = "field"
	// KindType is a value of another type.
	KindType Kind = "type"
	// KindRequired is a field that is required, without a default.
	KindRequired Kind = "required"
	// KindEnum is an enum that lacks values.
	KindEnum Kind = "enum"
	// KindBound is a smaller range: minimum, maxLength, multipleOf and the like.
	KindBound Kind = "bound"
	// KindPattern is another pattern.
	KindPattern Kind = "pattern"
	// KindFormat is another format.
	KindFormat Kind = "format"
	// KindNullable is null, which is not allowed.
	KindNullable Kind = "nullable"
	// KindListType is x-kubernetes-list-type and its keys.
	KindListType Kind = "list-type"
	// KindRule is a rule of x-kubernetes-validations.
	KindRule Kind = "rule"
	// KindLogic is another allOf, anyOf, oneOf or not.
	KindLogic Kind = "logic"
	// KindNewField is a field that only the second schema has.
	KindNewField Kind = "new-field"
	// KindDefault is another default, or one in only one of the schemas.
	KindDefault Kind = "default"
)

// AnyValue is the From of a KindEnum where only the second schema has an enum.
const AnyValue = "any value"

// Difference is one difference between two schemas.
type Difference struct {
	// Path is the field, as "spec.ports[*].name"; "[*]" stands for list items and
	// map keys, and "*" for fields that are preserved without being described.
	Path string
	// Kind is what it is about.
	Kind Kind
	// From and To are short texts of what the schemas say: a type, the values of
	// an enum, a bound. They are facts of schemas, never values of objects.
	From, To string
	// Narrows says that an object that is valid at the first schema can be invalid
	// at the second.
	Narrows bool
}

// Compare returns the differences from one schema to another, in the order of
// the fields. Equal schemas cost one comparison.
func Compare(from, to *schema.Schema) []Difference {
	c := comparison{}
	a, b := from.Structural(), to.Structural()
	switch {
	case a == b || reflect.DeepEqual(a, b):
	case a == nil || b == nil:
		// Without a schema everything is pruned and nothing is refused.
		for _, path := range to.Missing(from) {
			c.add(Difference{Path: path, Kind: KindField, To: absent})
		}
	default:
		c.node("", a, b)
	}
	return c.differences
}

// Narrowed returns the changes from an old schema to a new one that can make
// valid objects invalid.
func Narrowed(old, changed *schema.Schema) []Difference {
	var narrowed []Difference
	for _, difference := range Compare(old, changed) {
		if difference.Narrows {
			narrowed = append(narrowed, difference)
		}
	}
	return narrowed
}

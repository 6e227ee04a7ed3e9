package compat

import (
	"reflect"
	"strconv"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// values compares what values are allowed.
func (c *comparison) values(path string, from, to *structuralschema.ValueValidation, intOrString bool) {
	c.enum(path, from, to)
	c.bounds(path, from, to)
	if to.Pattern != "" && to.Pattern != from.Pattern {
		c.add(Difference{Path: path, Kind: KindPattern, From: short(from.Pattern), To: short(to.Pattern), Narrows: true})
	}
	if to.Format != "" && to.Format != from.Format {
		// Every number that is an int32 or a float fits these.
		wide := to.Format == "int64" || to.Format == "double"
		c.add(Difference{Path: path, Kind: KindFormat, From: short(from.Format), To: short(to.Format), Narrows: !wide})
	}
	for _, junctor := range []struct {
		name     string
		from, to any
	}{
		{"allOf", from.AllOf, to.AllOf}, {"oneOf", from.OneOf, to.OneOf}, {"not", from.Not, to.Not}, {"anyOf", from.AnyOf, to.AnyOf},
	} {
		if intOrString && junctor.name == "anyOf" && onlyTypes(to.AnyOf) {
			continue // It only repeats x-kubernetes-int-or-string.
		}
		if !empty(junctor.to) && !reflect.DeepEqual(junctor.from, junctor.to) {
			was := "another " + junctor.name
			if empty(junctor.from) {
				was = none
			}
			c.add(Difference{Path: path, Kind: KindLogic, From: was, To: junctor.name, Narrows: true})
		}
	}
}

func (c *comparison) enum(path string, from, to *structuralschema.ValueValidation) {
	if len(to.Enum) == 0 {
		return
	}
	known := map[string]bool{}
	for _, value := range to.Enum {
		known[full(value.Object)] = true
	}
	if len(from.Enum) == 0 {
		c.add(Difference{Path: path, Kind: KindEnum, From: AnyValue, To: list(to.Enum, nil), Narrows: true})
		return
	}
	if lacking := list(from.Enum, known); lacking != "" {
		c.add(Difference{Path: path, Kind: KindEnum, From: lacking, To: list(to.Enum, nil), Narrows: true})
	}
}

func (c *comparison) bounds(path string, from, to *structuralschema.ValueValidation) {
	add := func(name, was, is string) {
		c.add(Difference{Path: path, Kind: KindBound, From: was, To: name + " " + is, Narrows: true})
	}
	if to.Minimum != nil && (from.Minimum == nil || *to.Minimum > *from.Minimum ||
		*to.Minimum == *from.Minimum && to.ExclusiveMinimum && !from.ExclusiveMinimum) {
		add("minimum", number(from.Minimum, from.ExclusiveMinimum), number(to.Minimum, to.ExclusiveMinimum))
	}
	if to.Maximum != nil && (from.Maximum == nil || *to.Maximum < *from.Maximum ||
		*to.Maximum == *from.Maximum && to.ExclusiveMaximum && !from.ExclusiveMaximum) {
		add("maximum", number(from.Maximum, from.ExclusiveMaximum), number(to.Maximum, to.ExclusiveMaximum))
	}
	if to.MultipleOf != nil && (from.MultipleOf == nil || *from.MultipleOf != *to.MultipleOf) {
		add("multipleOf", number(from.MultipleOf, false), number(to.MultipleOf, false))
	}
	for _, bound := range []struct {
		name     string
		from, to *int64
	}{
		{"minLength", from.MinLength, to.MinLength}, {"minItems", from.MinItems, to.MinItems}, {"minProperties", from.MinProperties, to.MinProperties},
	} {
		if bound.to != nil && *bound.to > 0 && (bound.from == nil || *bound.to > *bound.from) {
			add(bound.name, count(bound.from), count(bound.to))
		}
	}
	for _, bound := range []struct {
		name     string
		from, to *int64
	}{
		{"maxLength", from.MaxLength, to.MaxLength}, {"maxItems", from.MaxItems, to.MaxItems}, {"maxProperties", from.MaxProperties, to.MaxProperties},
	} {
		if bound.to != nil && (bound.from == nil || *bound.to < *bound.from) {
			add(bound.name, count(bound.from), count(bound.to))
		}
	}
}

// rules reports the CEL rules that only the second schema has.
func (c *comparison) rules(path string, from, to *structuralschema.Structural) {
	before := map[string]bool{}
	for _, rule := range from.XValidations {
		before[rule.Rule] = true
	}
	for _, rule := range to.XValidations {
		if !before[rule.Rule] {
			c.add(Difference{Path: path, Kind: KindRule, From: none, To: short(rule.Rule), Narrows: true})
		}
	}
}

func onlyTypes(junctors []structuralschema.NestedValueValidation) bool {
	for _, junctor := range junctors {
		name := junctor.ForbiddenGenerics.Type
		if name != "integer" && name != "string" || !reflect.DeepEqual(junctor.ValueValidation, structuralschema.ValueValidation{}) {
			return false
		}
	}
	return len(junctors) == 2
}

func empty(value any) bool {
	v := reflect.ValueOf(value)
	return v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
}

func number(value *float64, exclusive bool) string {
	switch {
	case value == nil:
		return none
	case exclusive:
		return strconv.FormatFloat(*value, 'g', -1, 64) + " (exclusive)"
	default:
		return strconv.FormatFloat(*value, 'g', -1, 64)
	}
}

func count(value *int64) string {
	if value == nil {
		return none
	}
	return strconv.FormatInt(*value, 10)
}

// list returns the values of an enum that are not known, separated by commas.
func list(values []structuralschema.JSON, known map[string]bool) string {
	const most = 10
	var texts []string
	more := 0
	for _, value := range values {
		switch name := text(value.Object); {
		case known[full(value.Object)]:
		case len(texts) == most:
			more++
		default:
			texts = append(texts, name)
		}
	}
	joined := strings.Join(texts, ", ")
	if more > 0 {
		joined += " and " + strconv.Itoa(more) + " more"
	}
	return joined
}

package compat

import (
	"encoding/json"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

const (
	anyType     = "any"
	intOrString = "integer or string"
	atomic      = "atomic"
)

// typeName says of what type a value is.
func typeName(s *structuralschema.Structural) string {
	switch {
	case s == nil:
		return anyType
	case s.XIntOrString:
		return intOrString
	case s.Type == "":
		return anyType
	default:
		return s.Type
	}
}

// widens reports whether every value of one type is one of the other.
func widens(from, to string) bool {
	switch to {
	case from, anyType:
		return true
	case "number":
		return from == "integer"
	case intOrString:
		return from == "integer" || from == "string"
	default:
		return false
	}
}

// validation returns the value validation of a schema, never nil.
func validation(s *structuralschema.Structural) *structuralschema.ValueValidation {
	if s.ValueValidation == nil {
		return &structuralschema.ValueValidation{}
	}
	return s.ValueValidation
}

// listType returns the type of a list; without one a list is atomic.
func listType(s *structuralschema.Structural) string {
	if s.XListType == nil {
		return atomic
	}
	return *s.XListType
}

// text returns a value of a schema as JSON, cut where it is long.
func text(value any) string { return short(full(value)) }

// full returns a value of a schema as JSON, to be compared.
func full(value any) string {
	if value == nil {
		return none
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return none
	}
	return string(raw)
}

func short(text string) string {
	const most = 80
	if text == "" {
		return none
	}
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

func child(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func inList(path string) bool { return len(path) > 0 && path[len(path)-1] == ']' }

func metaField(name string) bool { return name == "apiVersion" || name == "kind" || name == "metadata" }

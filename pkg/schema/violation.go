package schema

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Violation is why the server refuses a custom resource. It shows nothing of
// the resource but the path: values can be secrets.
type Violation struct {
	// Path is the field, with "[*]" for list items and for the keys of maps; "" is
	// the object itself.
	Path string
	// Reason says what the schema asks for, without a full stop.
	Reason string
}

// String returns "path: reason".
func (v Violation) String() string {
	if v.Path == "" {
		return v.Reason
	}
	return v.Path + ": " + v.Reason
}

// violations returns upstream's errors without values, each once, in order.
func (v *Validator) violations(errs field.ErrorList) []Violation {
	var all []Violation
	for _, err := range errs {
		all = append(all, Violation{Path: normalise(err.Field, v.schema.root), Reason: v.reason(err)})
	}
	slices.SortFunc(all, func(a, b Violation) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

// reason says what an error is about. The errors of kube-openapi begin with the
// path and, where the type is wrong, end with the value; those of CEL rules can
// be made of values (messageExpression).
func (v *Validator) reason(err *field.Error) string {
	switch err.Type {
	case field.ErrorTypeRequired:
		if v.texts[err.Detail] {
			return err.Detail
		}
		return "is required"
	case field.ErrorTypeNotSupported:
		return "is not one of the values of the enum"
	case field.ErrorTypeDuplicate:
		return "is there twice in a list that must not have duplicates"
	case field.ErrorTypeTooLong:
		return "is too long"
	case field.ErrorTypeTooMany:
		return "has too many items"
	default:
	}
	if v.texts[err.Detail] {
		return err.Detail
	}
	// "spec.size in body should be greater than or equal to 1"
	if _, text, ok := strings.Cut(err.Detail, " in body "); ok {
		if about, _, ok := strings.Cut(text, ": \""); ok && strings.HasPrefix(about, "must be of type") {
			return about
		}
		return text
	}
	return "breaks a validation rule of the schema"
}

// ruleText is what a broken CEL rule says, unless it has a messageExpression
// (ruleMessageOrDefault in apiserver/schema/cel).
func ruleText(rule apiextensionsv1.ValidationRule) string {
	if rule.Message != "" {
		return strings.TrimSpace(rule.Message)
	}
	return "failed rule: " + strings.TrimSpace(rule.Rule)
}

// normalise writes "[*]" for indexes and for the keys of maps in a path of an
// error. Upstream joins both with names in several ways ("labels.app.io/a",
// "labels[app.io/a]"), so the schema has to tell which is which.
func normalise(path string, schema *structuralschema.Structural) string {
	if path == "<nil>" {
		return ""
	}
	var result strings.Builder
	for path != "" {
		path = strings.TrimPrefix(path, ".")
		switch {
		case schema != nil && schema.Items != nil && strings.HasPrefix(path, "["):
			_, path, _ = strings.Cut(path, "]")
			schema = schema.Items
			result.WriteString("[*]")
		case schema != nil && schema.AdditionalProperties != nil:
			schema = schema.AdditionalProperties.Structural
			path = afterKey(path, schema)
			result.WriteString("[*]")
		default:
			name := fieldName(path, schema)
			if result.Len() > 0 {
				result.WriteString(".")
			}
			result.WriteString(name)
			path = path[len(name):]
			schema, _ = descend(schema, name)
		}
	}
	return result.String()
}

// fieldName returns the name that a path begins with: of the names of the schema
// the longest, since names can have dots in them.
func fieldName(path string, schema *structuralschema.Structural) string {
	longest := ""
	if schema != nil {
		for name := range schema.Properties {
			if len(name) > len(longest) && strings.HasPrefix(path, name) && ends(path[len(name):]) {
				longest = name
			}
		}
	}
	if longest != "" {
		return longest
	}
	if i := strings.IndexAny(path, ".["); i > 0 {
		return path[:i]
	}
	return path
}

// afterKey returns what follows the key of a map in a path. The key ends where
// the path goes on with a field of the value.
func afterKey(path string, value *structuralschema.Structural) string {
	if strings.HasPrefix(path, "[") {
		for i, c := range path {
			if c == ']' && ends(path[i+1:]) {
				return path[i+1:]
			}
		}
		return ""
	}
	for i, c := range path {
		if value == nil || i == 0 {
			continue
		}
		switch {
		case c == '[' && value.Items != nil:
			return path[i:]
		case c == '.' && len(value.Properties) > 0:
			if _, ok := value.Properties[fieldName(path[i+1:], value)]; ok {
				return path[i:]
			}
		case c == '.' && value.AdditionalProperties != nil:
			return path[i:]
		}
	}
	return ""
}

func ends(rest string) bool { return rest == "" || rest[0] == '.' || rest[0] == '[' }

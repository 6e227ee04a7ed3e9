package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// decode returns the value of a document, as Kubernetes reads it.
func decode(text []byte) (any, error) {
	asJSON, err := sigsyaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("not valid YAML: %w", err)
	}
	return decodeJSON(asJSON)
}

func decodeJSON(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	return value, nil
}

// normal returns a value as it comes out of JSON.
func normal(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("not a value of JSON: %w", err)
	}
	return decodeJSON(text)
}

func sameValue(a, b any) bool {
	one, errOne := normal(a)
	two, errTwo := normal(b)
	return errOne == nil && errTwo == nil && reflect.DeepEqual(one, two)
}

// equalsScalar reports whether a field has a value already.
func equalsScalar(node *yaml.Node, value any) bool {
	if node.Kind != yaml.ScalarNode {
		return false
	}
	if text, ok := value.(string); ok {
		return node.Tag == "!!str" && node.Value == text
	}
	var now any
	return node.Decode(&now) == nil && sameValue(now, value)
}

// verify reports whether a text has the value of the document with exactly the
// changes. It changes value.
func verify(value any, changes []change, text []byte) error {
	errWrong := errors.New("it cannot be changed without changing something else")
	got, err := decode(text)
	if err != nil {
		return errWrong
	}
	for _, one := range changes {
		if !one.carryOut(value) {
			return errWrong
		}
	}
	if !reflect.DeepEqual(value, got) {
		return errWrong
	}
	return nil
}

// carryOut makes the change in the value of the document. It returns false if
// the value is not what the text was taken for.
func (c change) carryOut(at any) bool {
	value, err := normal(c.edit.Set)
	if err != nil {
		return false
	}
	replace := func(any) {}
	for i, one := range c.way {
		target := i == len(c.way)-1 && len(c.added) == 0
		switch parent := at.(type) {
		case map[string]any:
			if one.key == nil {
				return false
			}
			key := one.key.Value
			next, known := parent[key]
			switch {
			case !known:
				return false
			case target && c.edit.Remove:
				delete(parent, key)
			case target:
				parent[key] = value
			}
			at, replace = next, func(value any) { parent[key] = value }
		case []any:
			if one.key != nil || one.index >= len(parent) || target && c.edit.Remove {
				return false
			}
			if at = parent[one.index]; target {
				parent[one.index] = value
			}
			replace = func(value any) { parent[one.index] = value }
		default:
			return false
		}
	}
	return len(c.added) == 0 || c.carryOutAdded(at, value, replace)
}

// carryOutAdded adds a field to a mapping, or to nothing.
func (c change) carryOutAdded(at, value any, replace func(any)) bool {
	if at == nil {
		at = map[string]any{}
		replace(at)
	}
	mapping, ok := at.(map[string]any)
	if !ok {
		return false
	}
	for _, one := range c.added[:len(c.added)-1] {
		next := map[string]any{}
		mapping[one.text] = next
		mapping = next
	}
	mapping[c.added[len(c.added)-1].text] = value
	return true
}

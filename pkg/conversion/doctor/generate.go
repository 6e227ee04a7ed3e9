package doctor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/schema"
)

// beyondFloat is an integer that a float64 cannot hold.
const beyondFloat = 1<<53 + 1

// Generate returns an object of a version that has every field of its schema:
// with the example, the default or an allowed value that the schema names, and
// otherwise one that can be told from those of other fields.
func Generate(c crd.CRD, version string, known *schema.Schema) map[string]any {
	object := known.Sample()
	if entry := c.Version(version); entry != nil && entry.Schema != nil && entry.Schema.OpenAPIV3Schema != nil {
		if filled, ok := fill(object, entry.Schema.OpenAPIV3Schema, "").(map[string]any); ok {
			object = filled
		}
	}
	object["apiVersion"], object["kind"] = c.Spec.Group+"/"+version, c.Spec.Names.Kind
	metadata := map[string]any{"name": "sample"}
	if c.Spec.Scope == apiextensionsv1.NamespaceScoped {
		metadata["namespace"] = "default"
	}
	object["metadata"] = metadata
	return object
}

// fill gives a sample values that a webhook can do something with.
func fill(value any, props *apiextensionsv1.JSONSchemaProps, name string) any {
	if chosen, ok := given(props); ok {
		return chosen
	}
	switch value := value.(type) {
	case map[string]any:
		return fillFields(value, props)
	case []any:
		if props.Items == nil || props.Items.Schema == nil {
			return value
		}
		items := make([]any, len(value))
		for i := range value {
			items[i] = fill(value[i], props.Items.Schema, name)
		}
		return items
	case string:
		return text(props, name)
	case int64:
		return integer(props)
	default:
		return value
	}
}

func fillFields(fields map[string]any, props *apiextensionsv1.JSONSchemaProps) map[string]any {
	filled := make(map[string]any, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		property, known := props.Properties[name]
		switch {
		case known:
			filled[name] = fill(fields[name], &property, name)
		case props.AdditionalProperties != nil && props.AdditionalProperties.Schema != nil:
			filled["key"] = fill(fields[name], props.AdditionalProperties.Schema, "key")
		default:
			filled["other"] = "other" // Unknown fields are preserved here.
		}
	}
	return filled
}

// given returns the value that a schema names itself.
func given(props *apiextensionsv1.JSONSchemaProps) (any, bool) {
	for _, raw := range []*apiextensionsv1.JSON{props.Example, props.Default} {
		if value, ok := decoded(raw); ok {
			return value, true
		}
	}
	if len(props.Enum) > 0 {
		return decoded(&props.Enum[0])
	}
	return nil, false
}

func decoded(raw *apiextensionsv1.JSON) (any, bool) {
	if raw == nil {
		return nil, false
	}
	var value any
	if err := utiljson.Unmarshal(raw.Raw, &value); err != nil || value == nil {
		return nil, false
	}
	// As the API server has it: whole numbers are such.
	var wrapped map[string]any
	if err := utiljson.Unmarshal([]byte(`{"value":`+string(raw.Raw)+`}`), &wrapped); err != nil || !json.Valid(raw.Raw) {
		return nil, false
	}
	return runtime.DeepCopyJSONValue(wrapped["value"]), true
}

// text returns a text of the format of a schema.
func text(props *apiextensionsv1.JSONSchemaProps, name string) string {
	switch props.Format {
	case "date-time":
		return "2030-01-01T00:00:00Z"
	case "date":
		return "2030-01-01"
	case "duration":
		return "90s"
	case "byte":
		return "c2FtcGxl"
	case "uri":
		return "https://example.com/" + name
	case "email":
		return "sample@example.com"
	case "hostname":
		return "example.com"
	case "ipv4":
		return "192.0.2.1"
	case "ipv6":
		return "2001:db8::1"
	case "cidr":
		return "192.0.2.0/24"
	case "uuid", "uuid4":
		return "00000000-0000-4000-8000-000000000001"
	}
	value := "sample-" + name
	if props.MaxLength != nil && int64(len(value)) > *props.MaxLength {
		value = value[:max(*props.MaxLength, 0)]
	}
	for props.MinLength != nil && int64(len(value)) < *props.MinLength && len(value) < 1<<10 {
		value += "x"
	}
	return value
}

// integer returns the largest integer that a schema allows and that says
// something: one that does not survive as a float64, if there is one.
func integer(props *apiextensionsv1.JSONSchemaProps) int64 {
	value := int64(beyondFloat)
	if props.Format == "int32" || props.XIntOrString {
		value = 1<<31 - 1
	}
	if props.Maximum != nil && *props.Maximum < float64(value) {
		value = int64(*props.Maximum)
		if props.ExclusiveMaximum {
			value--
		}
	}
	if props.MultipleOf != nil && *props.MultipleOf >= 1 {
		value -= value % int64(*props.MultipleOf)
	}
	return value
}

// nameOf returns "NAMESPACE/NAME".
func nameOf(object map[string]any) string {
	id := identity(object)
	if id[0] == "" {
		return id[1]
	}
	return fmt.Sprintf("%s/%s", id[0], id[1])
}

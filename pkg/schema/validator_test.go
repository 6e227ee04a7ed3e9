package schema_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/schema"
)

const strict = `
type: object
required: [spec]
properties:
  spec:
    type: object
    required: [size]
    properties:
      size: {type: integer, minimum: 1, maximum: 9}
      mode: {type: string, enum: [Fast, Slow], default: Fast}
      name: {type: string, maxLength: 5, pattern: "^[a-z]*$"}
      id: {type: string, format: uuid}
      tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
      limits:
        type: object
        additionalProperties: {type: object, properties: {max: {type: integer, minimum: 1}}}
      low:
        type: object
        properties: {a: {type: integer}, b: {type: integer}}
        x-kubernetes-validations:
        - {rule: "!has(self.a) || !has(self.b) || self.a <= self.b", message: a must not be more than b}
        - {rule: "!has(self.a) || self.a != 7", messageExpression: "'not ' + string(self.a)"}
`

func validator(t testing.TB, document string) *schema.Validator {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{*version(t, document)}
	v, err := schema.NewValidator(crd, "v1")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func object(t testing.TB, document string) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(document), &fields); err != nil {
		t.Fatal(err)
	}
	return integers(fields).(map[string]any)
}

// integers makes whole numbers int64, as the server's decoder does.
func integers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			value[name] = integers(field)
		}
	case []any:
		for i, item := range value {
			value[i] = integers(item)
		}
	case float64:
		return int64(value)
	}
	return value
}

func TestValidate(t *testing.T) {
	t.Parallel()
	v := validator(t, strict)
	for document, test := range map[string]struct{ create, rewrite string }{
		"{spec: {size: 1}}":                         {},
		"{spec: {size: 1, tags: [a, b]}}":           {},
		"{}":                                        {"spec: is required", "spec: is required"},
		"{spec: {}}":                                {"spec.size: is required", ""},
		"{spec: {size: 0}}":                         {"spec.size: should be greater than or equal to 1", ""},
		"{spec: {size: secret}}":                    {"spec.size: must be of type integer", ""},
		"{spec: {size: 1, mode: secret}}":           {"spec.mode: is not one of the values of the enum", ""},
		"{spec: {size: 1, name: secretive}}":        {"spec.name: is too long", ""},
		"{spec: {size: 1, name: SCRT}}":             {"spec.name: should match '^[a-z]*$'", ""},
		"{spec: {size: 1, id: secret}}":             {"spec.id: must be of type uuid", ""},
		"{spec: {size: 1, tags: [secret, secret]}}": {"spec.tags[*]: is there twice in a list that must not have duplicates", ""},
		"{spec: {size: 1, limits: {secret: {max: 0}}}}": {
			"spec.limits[*].max: should be greater than or equal to 1", "",
		},
		"{spec: {size: 1, low: {a: 2, b: 1}}}": {"spec.low: a must not be more than b", ""},
		"{spec: {size: 1, low: {a: 7}}}":       {"spec.low: breaks a validation rule of the schema", ""},
	} {
		if got := joined(v.Validate(t.Context(), object(t, document))); got != test.create {
			t.Errorf("%s: got %q, want %q", document, got, test.create)
		}
		if got := joined(v.ValidateRewrite(t.Context(), object(t, document))); got != test.rewrite {
			t.Errorf("%s: rewriting: got %q, want %q", document, got, test.rewrite)
		}
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	v := validator(t, strict)
	o := object(t, "{metadata: {name: a}, extra: 1, spec: {size: 1, old: {a: 1}, limits: {secret: {min: 1}}, name: null}}")
	if got := strings.Join(v.Decode(o), " "); got != "extra spec.limits[*].min spec.old" {
		t.Errorf("dropped %s", got)
	}
	got, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	want := "metadata:\n  name: a\nspec:\n  limits:\n    secret: {}\n  mode: Fast\n  size: 1\n"
	if string(got) != want {
		t.Errorf("got %s", got)
	}
}

func TestNewValidatorWithoutSchema(t *testing.T) {
	t.Parallel()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1"}}
	v, err := schema.NewValidator(crd, "v1")
	if err != nil {
		t.Fatal(err)
	}
	o := object(t, "{spec: {a: 1}}")
	if got := v.Validate(t.Context(), o); got != nil {
		t.Errorf("got %v", got)
	}
	if got := v.ValidateRewrite(t.Context(), o); got != nil {
		t.Errorf("rewriting: got %v", got)
	}
	crd.Spec.PreserveUnknownFields = true
	if v, err = schema.NewValidator(crd, "v1"); err != nil {
		t.Fatal(err)
	}
	if got := v.Decode(o); got != nil {
		t.Errorf("dropped %v", got)
	}
	if _, err := schema.NewValidator(crd, "v2"); err == nil {
		t.Error("no error for a version that is not there")
	}
}

func joined(violations []schema.Violation) string {
	texts := make([]string, 0, len(violations))
	for _, violation := range violations {
		texts = append(texts, violation.String())
	}
	return strings.Join(texts, "; ")
}

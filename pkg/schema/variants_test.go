package schema_test

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/schema"
)

func variantCRD(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(`
spec:
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          metadata: {type: object}
          spec:
            type: object
            required: [name]
            properties:
              name: {type: string, minLength: 1}
              mode: {type: string, enum: [fast, slow, none], default: slow}
              size: {type: integer, minimum: 2, default: 7}
              port: {x-kubernetes-int-or-string: true}
              cron: {type: string, pattern: '^(\S+ ){4}\S+$'}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              map: {type: object, additionalProperties: {type: object, required: [a], properties: {a: {type: boolean}}}}
              nothing: {type: string, nullable: true}
`), crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

func TestVariants(t *testing.T) {
	t.Parallel()
	crd := variantCRD(t)
	validator, err := schema.NewValidator(crd, "v1")
	if err != nil {
		t.Fatal(err)
	}
	variants, left := validator.Schema().Variants(1000)
	names := map[string]map[string]any{}
	for _, v := range variants {
		if names[v.Name] != nil {
			t.Errorf("%s is there twice", v.Name)
		}
		names[v.Name] = v.Object
		object := map[string]any{"apiVersion": "example.com/v1", "kind": "A", "metadata": map[string]any{"name": "a"}}
		for name, value := range v.Object {
			object[name] = value
		}
		if broken := validator.Validate(t.Context(), object); len(broken) > 0 {
			t.Errorf("%s: %v", v.Name, broken)
		}
		if dropped := validator.Schema().Prune(object); len(dropped) > 0 {
			t.Errorf("%s: %q is not in the schema", v.Name, dropped)
		}
	}
	for _, want := range []string{
		"every field", "required fields only", "without spec.mode", "empty spec.tags", "empty spec.map", "default spec.mode", "default spec.size",
		"enum value 2 of spec.mode", "enum value 3 of spec.mode", "text spec.port", "null spec.nothing", "large spec.size", "empty spec.map[*].a", "empty spec.tags[*]",
	} {
		if names[want] == nil {
			t.Errorf("there is no %q", want)
		}
	}
	for _, not := range []string{"without spec", "without spec.name", "empty spec.name", "without spec.map[*].a", "empty spec.size"} {
		if names[not] != nil {
			t.Errorf("%q is not valid", not)
		}
	}
	if left != 0 {
		t.Errorf("%d are left", left)
	}
	few, left := validator.Schema().Variants(5)
	if len(few) != 5 || left == 0 {
		t.Errorf("%d variants, %d left", len(few), left)
	}
}

func TestVariantsWithoutSchema(t *testing.T) {
	t.Parallel()
	s, err := schema.New(&apiextensionsv1.CustomResourceDefinitionVersion{})
	if err != nil {
		t.Fatal(err)
	}
	if variants, _ := s.Variants(10); len(variants) != 1 {
		t.Errorf("%v", variants)
	}
}

package schema_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/schema"
)

// TestUnproven has the shapes in which a value is dropped or changed although no
// field that is described is missing.
func TestUnproven(t *testing.T) {
	t.Parallel()
	read := func(text string) *schema.Schema {
		t.Helper()
		var root apiextensionsv1.JSONSchemaProps
		if err := yaml.Unmarshal([]byte("{type: object, properties: {spec: "+text+"}}"), &root); err != nil {
			t.Fatal(err)
		}
		s, err := schema.New(&apiextensionsv1.CustomResourceDefinitionVersion{
			Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const (
		keeps    = "x-kubernetes-preserve-unknown-fields: true"
		embedded = "x-kubernetes-embedded-resource: true"
	)
	for _, test := range []struct{ from, to, want string }{
		{"{type: object, properties: {a: {type: string}}}", "{type: object, properties: {a: {type: string}}}", ""},
		{"{type: object, properties: {a: {type: string}}}", "{type: object, properties: {a: {type: string}, b: {type: string, default: x}}}", ""},
		{"{type: object, properties: {a: {type: string}}}", "{type: object, properties: {a: {type: string, maxLength: 3}}}", ""},
		{"{type: object, properties: {a: {type: string}, legacy: {type: string}}}", "{type: object, properties: {a: {type: string}}}", "spec.legacy"},
		{"{type: object, properties: {a: {type: string}}}", "{type: object, " + keeps + "}", ""},
		{"{type: object, " + keeps + "}", "{type: object, " + keeps + "}", ""},
		{"{type: object, " + keeps + "}", "{type: object}", "spec.*"},
		{"{type: object, " + keeps + "}", "{type: object, " + keeps + ", properties: {known: {type: object, properties: {a: {type: string}}}}}", "spec.known"},
		{"{type: object, " + keeps + "}", "{type: object, additionalProperties: {type: object}}", "spec.* spec[*]"},
		{"{type: object, additionalProperties: {type: string}}", "{type: object, additionalProperties: {type: string}}", ""},
		{"{type: object, additionalProperties: {type: string}}", "{type: object, properties: {a: {type: string}}}", "spec.a spec[*]"},
		{"{type: object, additionalProperties: {type: object, properties: {a: {type: string}}}}", "{type: object, additionalProperties: {type: object}}", "spec[*].a"},
		{"{type: object, additionalProperties: {type: string}}", "{type: object, " + keeps + "}", ""},
		{"{type: object, properties: {nn: {type: string, nullable: true}}}", "{type: object, properties: {nn: {type: string}}}", "spec.nn"},
		{"{type: object, properties: {nn: {type: string, nullable: true}}}", "{type: object, properties: {nn: {type: string, nullable: true, default: D}}}", ""},
		{"{type: object, properties: {nn: {type: string, default: a}}}", "{type: object, properties: {nn: {type: string, default: b}}}", "spec.nn"},
		{"{type: object, properties: {e: {type: object, " + keeps + "}}}", "{type: object, properties: {e: {type: object, " + keeps + ", " + embedded + "}}}", "spec.e"},
		{"{type: object, properties: {e: {type: object, " + keeps + ", " + embedded + "}}}", "{type: object, properties: {e: {type: object, " + keeps + "}}}", "spec.e"},
		{"{type: object, properties: {p: {x-kubernetes-int-or-string: true}}}", "{type: object, properties: {p: {type: integer}}}", "spec.p"},
		{"{type: array, items: {type: object, properties: {a: {type: string}, b: {type: string}}}}", "{type: array, items: {type: object, properties: {a: {type: string}}}}", "spec[*].b"},
	} {
		if got := strings.Join(read(test.to).Unproven(read(test.from)), " "); got != test.want {
			t.Errorf("from %s to %s: got %q, want %q", test.from, test.to, got, test.want)
		}
	}
}

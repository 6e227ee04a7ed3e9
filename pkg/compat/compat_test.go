package compat_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/compat"
	"github.com/crdver/kubectl-crdver/pkg/schema"
)

func parse(t testing.TB, document string) *schema.Schema {
	t.Helper()
	props := &apiextensionsv1.JSONSchemaProps{}
	if err := yaml.UnmarshalStrict([]byte(document), props); err != nil {
		t.Fatal(err)
	}
	s, err := schema.New(&apiextensionsv1.CustomResourceDefinitionVersion{
		Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func spec(fields string) string { return "{type: object, properties: {spec: " + fields + "}}" }

func TestCompare(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, from, to string
		// want has "path kind from -> to", with "!" where it narrows.
		want []string
	}{
		{"equal", "{type: object, properties: {a: {type: string}}}", "{type: object, properties: {a: {type: string}}}", nil},
		{"description", "{type: object, properties: {a: {type: string}}}", "{type: object, properties: {a: {type: string, description: x}}}", nil},
		{"metadata", "{type: object, properties: {metadata: {type: object}}}", "{type: object, required: [metadata]}", nil},
		{
			"fields", spec("{type: object, properties: {a: {type: string}, b: {type: array, items: {type: string}}}}"),
			spec("{type: object, properties: {a: {type: string}, c: {type: integer}}}"),
			[]string{"spec.b field array -> no such field", "spec.c new-field no such field -> integer"},
		},
		{
			"type", spec("{type: object, properties: {a: {type: string}, b: {type: integer}, c: {type: integer}}}"),
			spec("{type: object, properties: {a: {type: integer}, b: {x-kubernetes-int-or-string: true}, c: {type: number}}}"),
			[]string{"spec.a type string -> integer!", "spec.b type integer -> integer or string", "spec.c type integer -> number"},
		},
		{
			"int or string", spec("{x-kubernetes-int-or-string: true}"),
			spec("{x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}"), nil,
		},
		{
			"required", spec("{type: object, properties: {a: {type: string}, b: {type: string}}}"),
			spec("{type: object, required: [a, b, c, d], properties: {a: {type: string}, b: {type: string, default: x}, c: {type: string}, d: {type: string, default: k}}}"),
			[]string{
				"spec.b default none -> \"x\"", "spec.c new-field no such field -> string", "spec.d new-field no such field -> string",
				"spec.d default no such field -> \"k\"", "spec.a required optional -> required!", "spec.c required no such field -> required!",
			},
		},
		{
			"enum", spec("{type: object, properties: {a: {type: string, enum: [x, k, z]}, b: {type: string}, c: {type: string, enum: [x]}}}"),
			spec("{type: object, properties: {a: {type: string, enum: [x, w]}, b: {type: string, enum: [x]}, c: {type: string, enum: [k, x]}}}"),
			[]string{`spec.a enum "k", "z" -> "x", "w"!`, `spec.b enum any value -> "x"!`},
		},
		{
			"bounds", spec("{type: object, properties: {a: {type: integer, minimum: 1, maximum: 5}, b: {type: string, maxLength: 9}, c: {type: integer, minimum: 1}}}"),
			spec("{type: object, properties: {a: {type: integer, minimum: 0, maximum: 4}, b: {type: string, maxLength: 9, minLength: 0}, c: {type: integer, minimum: 1, exclusiveMinimum: true}}}"),
			[]string{"spec.a bound 5 -> maximum 4!", "spec.c bound 1 -> minimum 1 (exclusive)!"},
		},
		{
			"text", spec("{type: object, properties: {a: {type: string, pattern: a}, b: {type: string}, c: {type: integer, format: int32}}}"),
			spec("{type: object, properties: {a: {type: string, pattern: b}, b: {type: string, format: uuid}, c: {type: integer, format: int64}}}"),
			[]string{"spec.a pattern a -> b!", "spec.b format none -> uuid!", "spec.c format int32 -> int64"},
		},
		{
			"nullable", spec("{type: object, properties: {a: {type: string, nullable: true}, b: {type: array, items: {type: string, nullable: true}}}}"),
			spec("{type: object, properties: {a: {type: string}, b: {type: array, items: {type: string}}}}"),
			[]string{"spec.a nullable nullable -> not nullable", "spec.b[*] nullable nullable -> not nullable!"},
		},
		{
			"list", spec("{type: array, items: {type: string}}"), spec("{type: array, x-kubernetes-list-type: set, items: {type: string}}"),
			[]string{"spec list-type atomic -> set!"},
		},
		{
			"rules", spec("{type: object, x-kubernetes-validations: [{rule: a}]}"),
			spec("{type: object, oneOf: [{required: [a]}], x-kubernetes-validations: [{rule: a, message: m}, {rule: b}]}"),
			[]string{"spec logic none -> oneOf!", "spec rule none -> b!"},
		},
		{
			"maps", spec("{type: object, properties: {a: {type: object, additionalProperties: {type: string}}, b: {type: object, x-kubernetes-preserve-unknown-fields: true}}}"),
			spec("{type: object, properties: {a: {type: object, additionalProperties: {type: integer}}, b: {type: object, properties: {c: {type: string}}}}}"),
			[]string{"spec.a[*] type string -> integer!", "spec.b.c type any -> string!", "spec.b.* field any -> no such field"},
		},
		{
			"map to fields", spec("{type: object, additionalProperties: {type: string}}"), spec("{type: object, properties: {a: {type: string}}}"),
			[]string{"spec[*] field string -> no such field"},
		},
		{"fields to map", spec("{type: object, properties: {a: {type: string}}}"), spec("{type: object, additionalProperties: {type: string}}"), nil},
	} {
		from, to := parse(t, test.from), parse(t, test.to)
		var got, narrowed []string
		for _, d := range compat.Compare(from, to) {
			text := fmt.Sprintf("%s %s %s -> %s", d.Path, d.Kind, d.From, d.To)
			if d.Narrows {
				text += "!"
			}
			got = append(got, text)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s:\n got  %s\n want %s", test.name, strings.Join(got, "\n      "), strings.Join(test.want, "\n      "))
		}
		for _, d := range compat.Narrowed(from, to) {
			narrowed = append(narrowed, d.Path)
		}
		if want := strings.Count(strings.Join(test.want, "\n")+"\n", "!\n"); len(narrowed) != want {
			t.Errorf("%s: Narrowed has %v, want %d", test.name, narrowed, want)
		}
	}
}

func TestWithoutSchema(t *testing.T) {
	t.Parallel()
	none, err := schema.New(&apiextensionsv1.CustomResourceDefinitionVersion{Name: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	some := parse(t, spec("{type: object}"))
	if got := none.Missing(some); !slices.Equal(got, []string{"spec"}) {
		t.Errorf("got %v", got)
	}
	if got := compat.Compare(some, none); len(got) != 1 || got[0].Path != "spec" {
		t.Errorf("got %v", got)
	}
	if got := compat.Compare(none, some); got != nil {
		t.Errorf("got %v", got)
	}
	if got := compat.Compare(none, none); got != nil {
		t.Errorf("got %v", got)
	}
}

// TestFieldsAgreeWithMissing holds our own walk against upstream's pruning.
func TestFieldsAgreeWithMissing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ from, to string }{
		{"{type: object, properties: {a: {type: string}, b: {type: object, properties: {c: {type: string}}}}}", "{type: object, properties: {b: {type: object}}}"},
		{"{type: object, additionalProperties: true}", "{type: object}"},
		{"{type: object, additionalProperties: {type: object, properties: {a: {type: string}}}}", "{type: object, additionalProperties: {type: object}}"},
		{"{type: object, x-kubernetes-preserve-unknown-fields: true}", "{type: object, properties: {a: {type: string}}}"},
		{"{type: object, properties: {a: {type: string}}}", "{type: object, x-kubernetes-preserve-unknown-fields: true}"},
		{"{type: array, items: {type: object, properties: {a: {type: string}, b: {type: string}}}}", "{type: array, items: {type: object, properties: {b: {type: string}}}}"},
	} {
		from, to := parse(t, spec(test.from)), parse(t, spec(test.to))
		var fields []string
		for _, d := range compat.Compare(from, to) {
			if d.Kind == compat.KindField {
				fields = append(fields, d.Path)
			}
		}
		slices.Sort(fields)
		if lost := to.Missing(from); !slices.Equal(fields, lost) {
			t.Errorf("from %s to %s: our own walk finds %v, pruning drops %v", test.from, test.to, fields, lost)
		}
	}
}

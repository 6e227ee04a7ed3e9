package schema_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/schema"
)

const document = `
type: object
properties:
  spec:
    type: object
    properties:
      replicas: {type: integer}
      port: {x-kubernetes-int-or-string: true}
      labels:
        type: object
        additionalProperties: {type: string}
      groups:
        type: object
        additionalProperties:
          type: object
          properties: {size: {type: integer}}
      free:
        type: object
        additionalProperties: true
      ports:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name]
        items:
          type: object
          required: [name]
          properties: {name: {type: string}, port: {type: integer}}
      pairs:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [host, port]
        items:
          type: object
          required: [host, port]
          properties: {host: {type: string}, port: {type: integer}}
      tags:
        type: array
        x-kubernetes-list-type: set
        items: {type: string}
      args:
        type: array
        items: {type: object, properties: {value: {type: string}}}
      raw:
        type: object
        x-kubernetes-preserve-unknown-fields: true
        properties:
          strict: {type: object, properties: {a: {type: string}}}
      rawItems:
        x-kubernetes-preserve-unknown-fields: true
        type: array
        items: {type: object, properties: {known: {type: object, properties: {a: {type: string}}}}}
      template:
        type: object
        x-kubernetes-embedded-resource: true
        properties:
          spec: {type: object, properties: {a: {type: string}}}
`

func version(t testing.TB, document string) *apiextensionsv1.CustomResourceDefinitionVersion {
	t.Helper()
	props := &apiextensionsv1.JSONSchemaProps{}
	if err := yaml.UnmarshalStrict([]byte(document), props); err != nil {
		t.Fatal(err)
	}
	return &apiextensionsv1.CustomResourceDefinitionVersion{
		Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props},
	}
}

// path reads a path as managedFields have it: "f:spec f:ports k:{"name":"a"}".
func path(t testing.TB, text string) fieldpath.Path {
	t.Helper()
	var p fieldpath.Path
	for _, element := range strings.Fields(text) {
		e, err := fieldpath.DeserializePathElement(element)
		if err != nil {
			t.Fatal(err)
		}
		p = append(p, e)
	}
	return p
}

func TestKnows(t *testing.T) {
	t.Parallel()
	s, err := schema.New(version(t, document))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`f:apiVersion`:                           true,
		`f:kind`:                                 true,
		`f:metadata f:labels f:a`:                true,
		`f:metadata f:annotations`:               true,
		`f:metadata f:finalizers v:"x"`:          true,
		`f:spec`:                                 true,
		`f:status`:                               false,
		`f:status f:replicas`:                    false,
		`f:spec f:apiVersion`:                    false,
		`f:spec f:replicas`:                      true,
		`f:spec f:replicas f:x`:                  false,
		`f:spec f:replicas v:1`:                  false,
		`f:spec f:legacy`:                        false,
		`f:spec f:port`:                          true,
		`f:spec f:port f:x`:                      false,
		`f:spec f:labels f:anything`:             true,
		`f:spec f:labels f:anything f:x`:         false,
		`f:spec f:groups f:a f:size`:             true,
		`f:spec f:groups f:a f:weight`:           false,
		`f:spec f:free f:a`:                      true,
		`f:spec f:free f:a f:b`:                  false,
		`f:spec f:ports`:                         true,
		`f:spec f:ports k:{"name":"a"}`:          true,
		`f:spec f:ports k:{"name":"a"} f:x`:      false,
		`f:spec f:ports k:{"port":1}`:            false,
		`f:spec f:ports k:{"name":"a","port":1}`: false,
		`f:spec f:ports v:"a"`:                   false,
		`f:spec f:ports f:port`:                  false,
		`f:spec f:pairs k:{"host":"a","port":1}`: true,
		`f:spec f:pairs k:{"host":"a"}`:          false,
		`f:spec f:tags v:"a"`:                    true,
		`f:spec f:tags k:{"name":"a"}`:           false,
		`f:spec f:args`:                          true,
		`f:spec f:args k:{"value":"a"}`:          true, // The server makes it f:spec f:args.
		`f:spec f:args i:0 f:value`:              true,
		`f:spec f:args i:0 f:other`:              false,
		`f:spec f:raw f:a f:b`:                   true,
		`f:spec f:raw f:strict f:a`:              true,
		`f:spec f:raw f:strict f:b`:              false,
		`f:spec f:rawItems i:0 f:x f:y`:          true,
		`f:spec f:rawItems i:0 f:known f:b`:      false,
		`f:spec f:template f:kind`:               true,
		`f:spec f:template f:metadata f:name`:    true,
		`f:spec f:template f:spec f:a`:           true,
		`f:spec f:template f:data`:               false,
	} {
		if got := s.Knows(path(t, text)); got != want {
			t.Errorf("Knows(%s) = %t, want %t", text, got, want)
		}
	}
	if !s.Knows(nil) {
		t.Error("the object itself is unknown")
	}
}

func TestMapKey(t *testing.T) {
	t.Parallel()
	s, err := schema.New(version(t, document))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`f:spec`:                     false,
		`f:spec f:labels`:            false,
		`f:spec f:labels f:a`:        true,
		`f:spec f:groups f:a`:        true,
		`f:spec f:groups f:a f:size`: false,
		`f:spec f:tags v:"a"`:        false,
		`f:spec f:raw f:a`:           false,
		`f:spec f:legacy f:a`:        false,
		`f:spec f:template f:kind`:   false,
		`f:metadata f:labels`:        false,
	} {
		if got := s.MapKey(path(t, text)); got != want {
			t.Errorf("MapKey(%s) = %t, want %t", text, got, want)
		}
	}
	if s.MapKey(nil) {
		t.Error("the object itself is a map key")
	}
}

func TestNewWithoutSchema(t *testing.T) {
	t.Parallel()
	s, err := schema.New(&apiextensionsv1.CustomResourceDefinitionVersion{Name: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Knows(path(t, "f:spec")) || !s.Knows(path(t, "f:metadata f:labels")) {
		t.Error("a version without a schema knows metadata and nothing else")
	}
}

func TestNewNotStructural(t *testing.T) {
	t.Parallel()
	v := version(t, "{type: object, properties: {a: {type: array, items: [{type: string}]}}}")
	if _, err := schema.New(v); err == nil || !strings.Contains(err.Error(), "v1") {
		t.Errorf("got %v, want an error that names the version", err)
	}
}

func TestForVersion(t *testing.T) {
	t.Parallel()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "crontabs.example.com"}}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{*version(t, "type: object")}
	s, err := schema.ForVersion(crd, "v1")
	if err != nil {
		t.Fatal(err)
	}
	if s.Knows(path(t, "f:spec")) {
		t.Error("a field is known that the schema does not name")
	}
	crd.Spec.PreserveUnknownFields = true
	if s, err = schema.ForVersion(crd, "v1"); err != nil {
		t.Fatal(err)
	}
	if !s.Knows(path(t, `f:spec f:ports k:{"name":"a"} f:x`)) {
		t.Error("a field is unknown although the CRD preserves unknown fields")
	}
	if _, err := schema.ForVersion(crd, "v2"); err == nil {
		t.Error("no error for a version that is not there")
	}
}

// TestKnowsAgreesWithPruning builds random schemas and objects, lets the server's
// own code prune the objects, and wants Knows to accept exactly what is left.
func TestKnowsAgreesWithPruning(t *testing.T) {
	t.Parallel()
	const rounds = 3000
	kept, dropped := 0, 0
	for seed := range uint64(rounds) {
		random := rand.New(rand.NewPCG(seed, 1))
		props := randomSchema(random, 4)
		props.Type, props.XEmbeddedResource = "object", false
		v := &apiextensionsv1.CustomResourceDefinitionVersion{
			Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &props},
		}
		s, err := schema.New(v)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		object := randomFields(random, &props, 5)
		object["metadata"] = map[string]any{"name": "a", "labels": map[string]any{"a": "b"}}
		before := paths(nil, object)
		pruned := runtime.DeepCopyJSON(object)
		pruning.Prune(pruned, structural(t, &props), true)
		after := paths(nil, pruned)
		for text, p := range before {
			_, want := after[text]
			if got := s.Knows(p); got != want {
				raw, _ := json.Marshal(props)
				t.Fatalf("seed %d: Knows(%s) = %t, pruning keeps it: %t; schema %s", seed, text, got, want, raw)
			}
			if want {
				kept++
			} else {
				dropped++
			}
		}
	}
	if kept < rounds || dropped < rounds {
		t.Errorf("the objects prove little: %d paths kept, %d dropped", kept, dropped)
	}
}

func structural(t testing.TB, props *apiextensionsv1.JSONSchemaProps) *structuralschema.Structural {
	t.Helper()
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, &internal, nil); err != nil {
		t.Fatal(err)
	}
	s, err := structuralschema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// names are few, so that schemas and objects meet.
func names() []string { return []string{"a", "b", "c", "kind", "metadata"} }

func randomSchema(random *rand.Rand, depth int) apiextensionsv1.JSONSchemaProps {
	var props apiextensionsv1.JSONSchemaProps
	kind := random.IntN(4)
	if depth == 0 {
		kind = 3
	}
	if random.IntN(4) == 0 {
		yes := true
		props.XPreserveUnknownFields = &yes
	}
	switch kind {
	case 0: // A struct.
		props.Type = "object"
		props.XEmbeddedResource = random.IntN(4) == 0
		props.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
		for _, name := range names() {
			if random.IntN(2) == 0 {
				props.Properties[name] = randomSchema(random, depth-1)
			}
		}
	case 1: // A map.
		props.Type = "object"
		props.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true}
		if values := randomSchema(random, depth-1); random.IntN(4) > 0 {
			props.AdditionalProperties.Schema = &values
		}
	case 2:
		props.Type = "array"
		items := randomSchema(random, depth-1)
		props.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}
	default:
		if props.XPreserveUnknownFields == nil {
			props.Type = "string"
		}
	}
	return props
}

// randomFields builds an object that fits the schema as far as types go, as
// validation demands, with fields that the schema does not name.
func randomFields(random *rand.Rand, props *apiextensionsv1.JSONSchemaProps, depth int) map[string]any {
	object := map[string]any{}
	for _, name := range names() {
		if random.IntN(2) == 0 {
			continue
		}
		var field *apiextensionsv1.JSONSchemaProps
		if props != nil {
			if property, ok := props.Properties[name]; ok {
				field = &property
			} else if props.AdditionalProperties != nil {
				field = props.AdditionalProperties.Schema
			}
		}
		object[name] = randomValue(random, field, depth-1)
	}
	return object
}

func randomValue(random *rand.Rand, props *apiextensionsv1.JSONSchemaProps, depth int) any {
	kind := ""
	if props != nil {
		kind = props.Type
	}
	if kind == "" && depth > 0 {
		kind = []string{"object", "array", "string"}[random.IntN(3)]
	}
	switch kind {
	case "object":
		return randomFields(random, props, depth)
	case "array":
		var items *apiextensionsv1.JSONSchemaProps
		if props != nil && props.Items != nil {
			items = props.Items.Schema
		}
		list := []any{}
		for range random.IntN(3) {
			list = append(list, randomValue(random, items, depth-1))
		}
		return list
	default:
		return fmt.Sprint(random.IntN(10))
	}
}

// paths returns the paths of all values in a value.
func paths(prefix fieldpath.Path, value any) map[string]fieldpath.Path {
	all := map[string]fieldpath.Path{}
	visit := func(element fieldpath.PathElement, value any) {
		p := append(slices.Clone(prefix), element)
		all[p.String()] = p
		maps.Copy(all, paths(p, value))
	}
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			visit(fieldpath.PathElement{FieldName: &name}, field)
		}
	case []any:
		for i, item := range value {
			visit(fieldpath.PathElement{Index: &i}, item)
		}
	}
	return all
}

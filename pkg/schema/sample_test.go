package schema_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/crdver/kubectl-crdver/pkg/schema"
)

func TestSample(t *testing.T) {
	t.Parallel()
	s, err := schema.New(version(t, document))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(s.Sample())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"spec":{"args":[{"value":""}],"free":{"[*]":""},"groups":{"[*]":{"size":0}},"labels":{"[*]":""},` +
		`"pairs":[{"host":"","port":0}],"port":0,"ports":[{"name":"","port":0}],"raw":{"*":"","strict":{"a":""}},` +
		`"rawItems":[{"known":{"a":""}}],"replicas":0,"tags":[""],"template":{"spec":{"a":""}}}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if dropped := s.Prune(s.Sample()); len(dropped) > 0 {
		t.Errorf("a sample has fields that its own schema does not know: %v", dropped)
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	from, err := schema.New(version(t, document))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		document string
		want     string
	}{
		"same":      {document, ""},
		"preserved": {"{type: object, x-kubernetes-preserve-unknown-fields: true}", ""},
		"stub":      {"{type: object}", "spec"},
		"no fields in spec": {
			"{type: object, properties: {spec: {type: object}}}",
			"spec.args spec.free spec.groups spec.labels spec.pairs spec.port spec.ports spec.raw spec.rawItems spec.replicas spec.tags spec.template",
		},
		"deep": {
			strings.NewReplacer(
				"properties: {name: {type: string}, port: {type: integer}}", "properties: {name: {type: string}}",
				"properties: {size: {type: integer}}", "properties: {weight: {type: integer}}",
				"strict: {type: object, properties: {a: {type: string}}}", "strict: {type: object}",
			).Replace(document),
			"spec.groups[*].size spec.ports[*].port spec.raw.strict.a",
		},
	} {
		to, err := schema.New(version(t, test.document))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(to.Missing(from), " "); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
	none, err := schema.New(&apiextensionsv1.CustomResourceDefinitionVersion{Name: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	if got := none.Missing(from); !slices.Equal(got, []string{"spec"}) || from.Missing(none) != nil {
		t.Errorf("without a schema: got %v", got)
	}
}

// TestMissingAgreesWithKnows holds upstream's pruning of samples against our own
// walk through schemas.
func TestMissingAgreesWithKnows(t *testing.T) {
	t.Parallel()
	const rounds = 2000
	found := 0
	for seed := range uint64(rounds) {
		random := rand.New(rand.NewPCG(seed, 2))
		props := randomSchema(random, 5)
		from := root(t, props)
		to := root(t, *without(random, &props))
		denied := map[string]bool{}
		for _, p := range paths(nil, from.Sample()) {
			if !to.Knows(p) && to.Knows(p[:len(p)-1]) {
				denied[written(p)] = true
			}
		}
		got := to.Missing(from)
		for _, path := range got {
			if !denied[path] {
				t.Fatalf("seed %d: Missing has %s, which Knows knows", seed, path)
			}
		}
		if len(got) != len(denied) {
			t.Fatalf("seed %d: Missing has %v, Knows denies %v", seed, got, denied)
		}
		found += len(got)
	}
	if found < rounds/4 {
		t.Errorf("the schemas prove little: %d fields were missing", found)
	}
}

func root(t testing.TB, props apiextensionsv1.JSONSchemaProps) *schema.Schema {
	t.Helper()
	props.Type, props.XEmbeddedResource = "object", false
	s, err := schema.New(&apiextensionsv1.CustomResourceDefinitionVersion{
		Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &props},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// without returns a copy of a schema that lacks some of its fields. Types stay:
// Knows says nothing of a list where the schema has a map.
func without(random *rand.Rand, props *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	less := props.DeepCopy()
	if random.IntN(2) == 0 && less.Type != "" {
		less.XPreserveUnknownFields = nil
	}
	for _, name := range names() {
		if property, ok := props.Properties[name]; ok {
			less.Properties[name] = *without(random, &property)
			if random.IntN(4) == 0 {
				delete(less.Properties, name)
			}
		}
	}
	if less.Items != nil {
		less.Items.Schema = without(random, props.Items.Schema)
	}
	if less.AdditionalProperties != nil && less.AdditionalProperties.Schema != nil {
		less.AdditionalProperties.Schema = without(random, props.AdditionalProperties.Schema)
	}
	return less
}

// written writes a path as Missing does.
func written(p fieldpath.Path) string {
	text := ""
	for _, element := range p {
		switch {
		case element.FieldName == nil || *element.FieldName == "[*]":
			text += "[*]"
		case text == "":
			text = *element.FieldName
		default:
			text += "." + *element.FieldName
		}
	}
	return text
}

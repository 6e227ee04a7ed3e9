package conversion

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/schema"
)

// object decodes JSON as the client does.
func object(t testing.TB, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte("{apiVersion: example.com/v1, kind: CronTab, " + text + "}"))
	if err != nil {
		t.Fatal(err)
	}
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u.Object
}

func TestCompareObjects(t *testing.T) {
	t.Parallel()
	var props apiextensionsv1.JSONSchemaProps
	if err := yaml.UnmarshalStrict([]byte(`
type: object
properties:
  spec:
    type: object
    properties:
      labels: {type: object, additionalProperties: {type: object, properties: {size: {type: integer}}}}
`), &props); err != nil {
		t.Fatal(err)
	}
	withMaps, err := schema.New(&apiextensionsv1.CustomResourceDefinitionVersion{
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &props},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		before, after string
		schema        *schema.Schema
		want          []string
	}{
		"equal": {before: `spec: {a: 1, b: [x, {c: null}], d: true}`, after: `spec: {d: true, b: [x, {c: null}], a: 1}`},
		"what the server keeps for itself": {
			before: `metadata: {name: a, resourceVersion: "1", generation: 1, managedFields: [{manager: a}]}`,
			after:  `metadata: {name: a, resourceVersion: "2", generation: 2}, apiVersion: example.com/v2`,
		},
		"only at their place": {
			before: `spec: {apiVersion: a, metadata: {generation: 1}}, status: {resourceVersion: a}`,
			after:  `spec: {apiVersion: b, metadata: {generation: 2}}`,
			want:   []string{"changed spec.apiVersion", "changed spec.metadata.generation", "lost status"},
		},
		"numbers by value": {before: `spec: {a: 1, b: 2.0, c: 0.5}`, after: `spec: {a: 1.0, b: 2, c: 5e-1}`},
		"numbers that a float cannot tell apart": {
			before: `spec: {a: 9007199254740993, b: 9223372036854775807, c: 1}`, after: `spec: {a: 9007199254740992.0, b: 9223372036854775808.0, c: 1.5}`,
			want: []string{"changed spec.a", "changed spec.b", "changed spec.c"},
		},
		"types":                {before: `spec: {a: "1", b: true, c: {}}`, after: `spec: {a: 1, b: "true", c: []}`, want: []string{"changed spec.a", "changed spec.b", "changed spec.c"}},
		"lost, with all in it": {before: `spec: {a: {b: {c: 1}}, d: {}, e: null, f: 1}`, after: `spec: {f: 1}`, want: []string{"lost spec.a", "lost spec.d", "lost spec.e"}},
		"appeared":             {before: `kind: x`, after: `kind: x, spec: {a: 1}`, want: []string{"appeared spec"}},
		"lists": {
			before: `spec: {ports: [{name: a, hostPort: 1}, {name: b, hostPort: 2}], tags: [a, b], args: [a]}`,
			after:  `spec: {ports: [{name: a}, {name: c}], tags: [a], args: [a, b]}`,
			want:   []string{"appeared spec.args[*]", "lost spec.ports[*].hostPort", "changed spec.ports[*].name", "lost spec.tags[*]"},
		},
		"lists in lists": {before: `spec: [[{a: 1}], [{a: 1}]]`, after: `spec: [[{a: 2}], [{b: 1}]]`, want: []string{"changed spec[*][*].a", "lost spec[*][*].a", "appeared spec[*][*].b"}},
		"keys of maps without a schema": {
			before: `spec: {labels: {p: {size: 1}, q: {size: 1}}}`, after: `spec: {labels: {p: {size: 2}}}`,
			want: []string{"changed spec.labels.p.size", "lost spec.labels.q"},
		},
		"keys of maps with a schema": {
			before: `spec: {labels: {p: {size: 1}, q: {size: 1}, r: {size: 1}}}`, after: `spec: {labels: {p: {size: 2}}}`, schema: withMaps,
			want: []string{"changed spec.labels[*].size", "lost spec.labels[*]"},
		},
		"labels and annotations": {
			before: `metadata: {labels: {a: b}, annotations: {a: b, c: d}}`, after: `metadata: {annotations: {a: x}}`,
			want: []string{"changed metadata.annotations.a", "lost metadata.annotations.c", "lost metadata.labels"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, d := range compareObjects(object(t, test.before), object(t, test.after), test.schema) {
				got = append(got, d.change+" "+d.path)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompareObjectsIsBounded(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 10 * maxPaths {
		fmt.Fprintf(&text, "f%d: 1, ", i)
	}
	got := compareObjects(object(t, "spec: {a: 1, "+text.String()+"}"), object(t, "spec: {a: 1}"), nil)
	if len(got) != maxPaths+1 || got[maxPaths] != (difference{path: OtherPaths, change: v1alpha1.ChangeLost}) {
		t.Errorf("%d differences, the last is %v; want %d, and the rest as one", len(got), got[len(got)-1], maxPaths)
	}
}

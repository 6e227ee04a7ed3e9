package conversion

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/schema"
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	var props apiextensionsv1.JSONSchemaProps
	if err := yaml.UnmarshalStrict([]byte(`
type: object
properties:
  spec:
    type: object
    properties:
      set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
      list: {type: array, items: {type: string}}
      ports: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, properties: {name: {type: string}, port: {type: integer}}}}
      map: {type: object, additionalProperties: {type: object, properties: {a: {type: string}}}}
      port: {x-kubernetes-int-or-string: true}
      memory: {x-kubernetes-int-or-string: true, pattern: '^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$'}
      memories: {type: object, additionalProperties: {x-kubernetes-int-or-string: true, pattern: 'x[KMGTPE]i'}}
      text: {type: string}
      nothing: {type: string, nullable: true}
      embedded: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
`), &props); err != nil {
		t.Fatal(err)
	}
	known, err := schema.New(&apiextensionsv1.CustomResourceDefinitionVersion{Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &props}})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		before, after string
		want          []string
	}{
		"order of a set":      {`spec: {set: [a, b]}`, `spec: {set: [b, a]}`, nil},
		"items of a set":      {`spec: {set: [a, b]}`, `spec: {set: [c, a]}`, []string{"lost spec.set[*] at spec.set[=b]", "appeared spec.set[*] at spec.set[=c]"}},
		"order of a list":     {`spec: {list: [a, b]}`, `spec: {list: [b, a]}`, []string{"changed spec.list[*] at spec.list[0]", "changed spec.list[*] at spec.list[1]"}},
		"order of a list map": {`spec: {ports: [{name: a, port: 1}, {name: b}]}`, `spec: {ports: [{name: b}, {name: a, port: 1}]}`, nil},
		"items of a list map": {`spec: {ports: [{name: a, port: 1}, {name: b}]}`, `spec: {ports: [{name: b, port: 2}, {name: a, port: 2}]}`, []string{
			`changed spec.ports[*].port at spec.ports[name="a",].port`, `appeared spec.ports[*].port at spec.ports[name="b",].port`,
		}},
		"a list map that is none": {`spec: {ports: [{name: a}, {name: a, port: 1}]}`, `spec: {ports: [{name: a}, {name: a}]}`, []string{"lost spec.ports[*].port at spec.ports[1].port"}},
		"map":                     {`spec: {map: {x: {a: b}, z: {}}}`, `spec: {map: {x: {}}}`, []string{`lost spec.map[*].a at spec.map["x"].a`, `lost spec.map[*] at spec.map["z"]`}},
		"numbers":                 {`spec: {text: 1}`, `spec: {text: 1.0}`, nil},
		"large numbers":           {`spec: {text: 9007199254740993}`, `spec: {text: 9007199254740992}`, []string{"changed spec.text at spec.text"}},
		"int or string":           {`spec: {port: 80}`, `spec: {port: "80"}`, []string{"changed spec.port at spec.port"}},
		"quantities":              {`spec: {memory: 1024Mi, memories: {a: 1000m}}`, `spec: {memory: 1Gi, memories: {a: 1}}`, nil},
		"other quantities":        {`spec: {memory: 1G, text: 1000m}`, `spec: {memory: 1Gi, text: "1"}`, []string{"changed spec.memory at spec.memory", "changed spec.text at spec.text"}},
		"nulls":                   {`spec: {text: null}, metadata: {creationTimestamp: null}`, `spec: {}, metadata: {}`, nil},
		"nulls that count":        {`spec: {nothing: null, embedded: {a: null}}`, `spec: {embedded: {}}`, []string{"lost spec.embedded.a at spec.embedded.a", "lost spec.nothing at spec.nothing"}},
		"empty is not absent":     {`spec: {text: "", list: [], map: {}}`, `spec: {}`, []string{"lost spec.list at spec.list", "lost spec.map at spec.map", "lost spec.text at spec.text"}},
		"no labels":               {`metadata: {labels: {}}`, `metadata: {annotations: {}}`, nil},
		"labels": {`metadata: {labels: {a.b/c: x}, annotations: {a.b/c: x}}`, `metadata: {labels: {a.b/c: y}, annotations: {}}`, []string{
			"lost metadata.annotations[a.b/c] at metadata.annotations[a.b/c]", "changed metadata.labels[a.b/c] at metadata.labels[a.b/c]",
		}},
		"identity": {`metadata: {name: a, namespace: a, uid: a}`, `metadata: {name: b, namespace: b, uid: b}`, []string{
			"changed metadata.name at metadata.name", "changed metadata.namespace at metadata.namespace", "changed metadata.uid at metadata.uid",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, d := range Differences(object(t, test.before), object(t, test.after), known) {
				got = append(got, d.Change+" "+d.Path+" at "+d.At)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithin(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]bool{"spec.a": true, "spec.a.b": true, "spec.a[0]": true, "spec.ab": false, "spec": false} {
		if got := Within(at, "spec.a"); got != want {
			t.Errorf("%s: %v", at, got)
		}
	}
}

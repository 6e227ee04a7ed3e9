package e2e_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestRoundtripOfACorrectWebhook: 2,000 objects, both ways.
func TestRoundtripOfACorrectWebhook(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.hostPorts(t, "correct.example.com", hook(t, hostPort), 2000)
	item, got := b.roundtrip(t, 0, name, "--all")
	same(t, nil, got)
	if item.Objects != 2000 || !item.Complete || len(item.Pairs) != 2 || item.Pairs[0].Objects != 2000 || !item.Pairs[0].Replayed || len(item.Open) != 0 {
		t.Errorf("%+v", item)
	}
	item, got = b.roundtrip(t, 0, name, "--from", "v1beta1", "--to", "v1", "-n", "a", "--sample", "100")
	same(t, nil, got)
	if item.Objects != 100 || item.Total != 1000 || len(item.Pairs) != 1 {
		t.Errorf("%+v", item)
	}
}

// TestRoundtripOfWrongWebhooks makes the webhook wrong in one way at a time.
func TestRoundtripOfWrongWebhooks(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	calls := atomic.Int64{}
	for name, test := range map[string]struct {
		wrong func(object, spec map[string]any, to string)
		want  []string
	}{
		"drops a field": {
			func(_, spec map[string]any, to string) {
				if to == "v1" {
					delete(spec, "replicas")
				}
			},
			[]string{"v1beta1 v1: lost spec.replicas conversion v1 6"},
		},
		"swaps": {
			func(_, spec map[string]any, to string) {
				if to == "v1" {
					spec["host"], spec["port"] = spec["port"], spec["host"]
				}
			},
			[]string{"v1 v1beta1: changed spec.host conversion v1 6", "v1 v1beta1: changed spec.port conversion v1 6", "v1beta1 v1: changed spec.hostPort conversion v1 6"},
		},
		"loses precision": {
			func(_, spec map[string]any, to string) {
				if n, ok := spec["replicas"].(int64); ok && to == "v1" {
					spec["replicas"] = int64(float64(n))
				}
			},
			[]string{"v1beta1 v1: changed spec.replicas conversion v1 6"},
		},
		"forgets status": {
			func(object, _ map[string]any, _ string) { delete(object, "status") },
			nil, // There is none.
		},
		// Fact 20: what is left out is erased.
		"omits labels and annotations": {
			func(object, _ map[string]any, to string) {
				metadata, _ := object["metadata"].(map[string]any)
				if to == "v1beta1" {
					delete(metadata, "labels")
					delete(metadata, "annotations")
				}
			},
			[]string{
				"v1 v1beta1: lost metadata.annotations conversion v1 6", "v1 v1beta1: lost metadata.labels conversion v1 6",
				"v1beta1 v1: lost metadata.annotations conversion v1 6", "v1beta1 v1: lost metadata.labels conversion v1 6",
			},
		},
		"renames into an unknown field": { // The conversion alone goes back and forth: pruning breaks it.
			func(_, spec map[string]any, to string) {
				if to == "v1" {
					spec["count"] = spec["replicas"]
					delete(spec, "replicas")
				} else if count, ok := spec["count"]; ok {
					spec["replicas"] = count
					delete(spec, "count")
				}
			},
			[]string{"v1beta1 v1: lost spec.replicas pruning v1 6"},
		},
		"stateful": {
			func(_, spec map[string]any, to string) {
				if to == "v1" {
					spec["host"] = fmt.Sprint("call ", calls.Add(1))
				}
			},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			group := strings.ReplaceAll(name, " ", "-") + ".example.com"
			crdName := b.hostPorts(t, group, hook(t, func(object map[string]any, from, to string) {
				hostPort(object, from, to)
				spec, _ := object["spec"].(map[string]any)
				test.wrong(object, spec, to)
			}), 6)
			code := 2
			if name == "forgets status" {
				code = 0
			}
			item, got := b.roundtrip(t, code, crdName)
			if name == "stateful" {
				if !slices.Contains(got, "v1beta1 v1: changed spec.host server v1 6") {
					t.Errorf("%q", got)
				}
				return
			}
			same(t, test.want, got)
			if len(item.Open) > 0 {
				t.Errorf("open: %q", item.Open)
			}
		})
	}
}

// TestRoundtripTellsTheStagesApart: one object suffers conversion, pruning and
// defaulting, each in a field of its own and two within one field.
func TestRoundtripTellsTheStagesApart(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	c := specs(t, "stages.example.com",
		[2]string{"v1beta1", `{type: object, properties: {dropped: {type: string}, old: {type: string}, mode: {type: string}, both: {type: array, items: {type: object, properties: {a: {type: string}, b: {type: string}}}}}}`},
		[2]string{"v1", `{type: object, properties: {dropped: {type: string}, mode: {type: string, default: fast}, both: {type: array, items: {type: object, properties: {a: {type: string}}}}}}`})
	c.Spec.Conversion = hook(t, func(object map[string]any, _, _ string) {
		spec, _ := object["spec"].(map[string]any)
		delete(spec, "dropped")
		if both, ok := spec["both"].([]any); ok && len(both) > 0 {
			delete(both[0].(map[string]any), "a")
		}
	})
	name := b.createCRD(t, c)
	b.create(t, "stages.example.com", "v1beta1", 1, func(int) map[string]any {
		item := map[string]any{"a": "s3cret", "b": "s3cret"}
		return map[string]any{"dropped": "s3cret", "old": "s3cret", "both": []any{item, runtime.DeepCopyJSON(item)}}
	})
	_, got := b.roundtrip(t, 2, name, "--from", "v1beta1")
	same(t, []string{
		"v1beta1 v1: lost spec.both[*].a conversion v1 1",
		"v1beta1 v1: lost spec.both[*].b pruning v1 1",
		"v1beta1 v1: lost spec.dropped conversion v1 1",
		"v1beta1 v1: appeared spec.mode defaulting v1 1",
		"v1beta1 v1: lost spec.old pruning v1 1",
	}, got)
	text := b.must(t, 2, "roundtrip", name, "--from", "v1beta1").stdout
	contains(t, text, "v1beta1 -> v1 -> v1beta1: 4 lost, 1 appeared", "spec.old         lost       pruning      v1        1         a/object-000000")
}

// TestRoundtripWithNone has the shapes of values that a schema can describe.
func TestRoundtripWithNone(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const common = `
  port: {x-kubernetes-int-or-string: true}
  memory: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}], pattern: '^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$'}
  template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
  tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
  nested: {type: array, items: {type: array, items: {type: object, properties: {a: {type: string}}}}}
`
	name := b.createCRD(t, specs(t, "none.example.com",
		[2]string{"v1beta1", `{type: object, properties: {` + "\n" + oneLineOf(common) + `legacy: {type: string}, free: {type: object, x-kubernetes-preserve-unknown-fields: true}, map: {type: object, additionalProperties: {type: object, properties: {size: {type: integer}, weight: {type: integer}}}}}}`},
		[2]string{"v1", `{type: object, properties: {` + "\n" + oneLineOf(common) + `mode: {type: string, default: fast}, free: {type: object, properties: {known: {type: string}}}, map: {type: object, additionalProperties: {type: object, properties: {size: {type: integer}}}}}}`}))
	b.create(t, "none.example.com", "v1beta1", 10, func(i int) map[string]any {
		spec := map[string]any{
			"port": "80", "memory": "1Gi", "tags": []any{"s3cret", "b"},
			"nested":   []any{[]any{map[string]any{"a": "s3cret"}}},
			"template": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "s3cret"}, "data": map[string]any{"a": "s3cret"}},
			"free":     map[string]any{"known": "s3cret", "unknown": "s3cret"},
			"map":      map[string]any{"s3cret": map[string]any{"size": int64(1), "weight": int64(2)}},
		}
		if i%2 == 0 {
			spec["legacy"], spec["port"] = "s3cret", int64(80)
		}
		return spec
	})
	want := []string{
		"v1beta1 v1: lost spec.free.unknown pruning v1 10",
		"v1beta1 v1: lost spec.legacy pruning v1 5",
		"v1beta1 v1: lost spec.map[*].weight pruning v1 10",
		"v1beta1 v1: appeared spec.mode defaulting v1 10",
	}
	_, got := b.roundtrip(t, 2, name)
	same(t, want, got)

	// What is accepted is quiet; what is not found any more is said.
	file := filepath.Join(t.TempDir(), "accepted.yaml")
	b.must(t, 0, "roundtrip", name, "--write-accept", file)
	b.roundtrip(t, 0, name, "--accept", file)
	b.roundtrip(t, 0, name, "--accept", file, "--strict")
	narrow := b.must(t, 0, "roundtrip", name, "--accept", file, "--from", "v1")
	contains(t, narrow.stderr, "none.example.com: v1beta1 -> v1: spec.legacy lost by pruning was accepted and is not found any more")

	// Values are shown when they are asked for.
	contains(t, b.must(t, 2, "roundtrip", name, "--show-values").stdout, `"s3cret"`, "BEFORE")
	contains(t, b.must(t, 2, "roundtrip", name, "-o", "junit").stdout, `failures="3"`, "spec.legacy lost by pruning at v1")
	contains(t, b.must(t, 2, "roundtrip", name, "-o", "name").stdout, "customresourcedefinition.apiextensions.k8s.io/"+name)
}

func oneLineOf(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "}\n", "},\n") + ","
}

// TestRoundtripOfReportedLosses has the cases 53, 55 and 65, and facts 6 and 18.
func TestRoundtripOfReportedLosses(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	for name, test := range map[string]struct {
		versions [][2]string
		writeAt  string
		spec     map[string]any
		code     int
		want     []string
		text     string
	}{
		"53 renamed field": {
			versions: [][2]string{
				{"v1alpha1", `{type: object, properties: {allowCascadingDelete: {type: boolean}}}`},
				{"v1alpha2", `{type: object, properties: {allowCascadingDeletion: {type: boolean}}}`},
			},
			writeAt: "v1alpha1", spec: map[string]any{"allowCascadingDelete": true}, code: 2,
			want: []string{"v1alpha1 v1alpha2: lost spec.allowCascadingDelete pruning v1alpha2 2"},
			text: "a client that reads an object at v1alpha2 and writes it back makes this final",
		},
		"53 after promoting": {
			versions: [][2]string{
				{"v1alpha2", `{type: object, properties: {allowCascadingDeletion: {type: boolean}}}`},
				{"v1alpha1", `{type: object, properties: {allowCascadingDelete: {type: boolean}}}`},
			},
			writeAt: "v1alpha1", spec: map[string]any{"allowCascadingDelete": true}, code: 0,
			want: nil, // It was lost when it was written.
		},
		"55 stub schema": {
			versions: [][2]string{
				{"v2", `{type: object, properties: {image: {type: string}, replicas: {type: integer}}}`},
				{"v1", `{type: object}`},
			},
			writeAt: "v2", spec: map[string]any{"image": "s3cret", "replicas": int64(1)}, code: 2,
			want: []string{"v2 v1: lost spec.image pruning v1 2", "v2 v1: lost spec.replicas pruning v1 2"},
		},
		"65 default of the storage version": {
			versions: [][2]string{
				{"v1beta1", `{type: object, properties: {image: {type: string}, policy: {type: string, default: Owner}}}`},
				{"v1alpha1", `{type: object, properties: {image: {type: string}, policy: {type: string}}}`},
			},
			writeAt: "v1alpha1", spec: map[string]any{"image": "s3cret"}, code: 0,
			want: nil, // Reading sets it already: see the file.
		},
	} {
		t.Run(name, func(t *testing.T) {
			group := strings.ReplaceAll(name, " ", "-") + ".example.com"
			crdName := b.createCRD(t, specs(t, group, test.versions...))
			b.create(t, group, test.writeAt, 2, func(int) map[string]any { return test.spec })
			_, got := b.roundtrip(t, test.code, crdName)
			same(t, test.want, got)
			contains(t, b.must(t, test.code, "roundtrip", crdName).stdout, test.text)
			if !strings.HasPrefix(name, "65") {
				return
			}
			// The manifest in Git lacks what the server gives back.
			object := newCronTab(group, test.writeAt, "a", "git", 1)
			object.Object["spec"] = map[string]any{"image": "s3cret"}
			text, err := object.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			_, got = b.roundtrip(t, 0, "-f", writeFile(t, "git.json", text), "--from", "v1alpha1")
			same(t, []string{"v1alpha1 v1beta1: appeared spec.policy defaulting v1beta1 1"}, got)
		})
	}

	// Fact 18: the storage version changed, and nothing is rewritten yet: the old
	// field is there, and any write destroys it.
	t.Run("persisted at the old version", func(t *testing.T) {
		const group = "fact18.example.com"
		crdName := b.createCRD(t, specs(t, group,
			[2]string{"v1beta1", `{type: object, properties: {legacy: {type: string}, size: {type: integer}}}`},
			[2]string{"v1", `{type: object, properties: {size: {type: integer}}}`}))
		b.create(t, group, "v1beta1", 3, func(int) map[string]any { return map[string]any{"legacy": "s3cret"} })
		b.updateCRD(t, crdName, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1") })
		probe := newCronTab(group, "v1", "probe", "probe", 1)
		if err := testbed.WaitForStorageVersion(t.Context(), b, resource(group, "v1"), probe, "v1"); err != nil {
			t.Fatal(err)
		}
		_, got := b.roundtrip(t, 2, crdName)
		same(t, []string{"v1beta1 v1: lost spec.legacy pruning v1 3"}, got)
		contains(t, b.must(t, 2, "roundtrip", crdName).stdout, "any write of an object makes this final, a no-op patch and a storage migration, too")
	})
}

// TestRoundtripOfThreeVersions says which edge loses something.
func TestRoundtripOfThreeVersions(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	all := `{type: object, properties: {a: {type: string}, b: {type: string}}}`
	c := specs(t, "three.example.com", [2]string{"v1", all}, [2]string{"v1beta1", all}, [2]string{"v1alpha1", all})
	c.Spec.Conversion = hook(t, func(object map[string]any, from, to string) {
		if spec, ok := object["spec"].(map[string]any); ok && (from == "v1alpha1" || to == "v1alpha1") {
			delete(spec, "b")
		}
	})
	name := b.createCRD(t, c)
	b.create(t, "three.example.com", "v1", 4, func(int) map[string]any { return map[string]any{"a": "s3cret", "b": "s3cret"} })
	item, got := b.roundtrip(t, 2, name)
	same(t, []string{"v1 v1alpha1: lost spec.b conversion v1alpha1 4", "v1beta1 v1alpha1: lost spec.b conversion v1alpha1 4"}, got)
	want := []v1alpha1.RoundTripEdge{{Version: "v1beta1"}, {Version: "v1alpha1", Lossy: true}}
	if diff := cmp.Diff(want, item.Edges); diff != "" || len(item.Pairs) != 6 {
		t.Errorf("%d pairs (-want +got):\n%s", len(item.Pairs), diff)
	}
	contains(t, b.must(t, 2, "roundtrip", name).stdout, "between the storage version v1 and: v1beta1 nothing lost, v1alpha1 lossy")
}

// TestRoundtripWithoutTheWebhook: the server reaches it, and this machine does not.
func TestRoundtripWithoutTheWebhook(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.hostPorts(t, "unreachable.example.com", hook(t, hostPort), 3)
	item, got := b.roundtrip(t, 1, name, "--url", "https://127.0.0.1:1/convert")
	same(t, nil, got)
	if len(item.Open) != 2 || !strings.Contains(item.Open[0], "could not be called") || item.Pairs[0].Replayed {
		t.Errorf("%+v", item)
	}
	text := b.must(t, 1, "roundtrip", name, "--url", "https://127.0.0.1:1/convert")
	contains(t, text.stdout, "v1 -> v1beta1 -> v1: not known", "2 open questions")
	if strings.Contains(text.stdout, "nothing lost") {
		t.Errorf("it claims what it cannot know: %s", text)
	}
}

// TestRoundtripOfAFailingWebhook: fact 15, the server calls the objects corrupt.
func TestRoundtripOfAFailingWebhook(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	hook := startWebhook(t)
	name := b.createCRD(t, hook.converted("failing.example.com"))
	b.create(t, "failing.example.com", "v1beta1", 4, func(int) map[string]any { return map[string]any{"schedule": "s3cret"} })
	b.roundtrip(t, 0, name)
	hook.broken.Store(true)
	item, got := b.roundtrip(t, 2, name)
	same(t, []string{"v1 v1beta1: failed ConversionFailed 4", "v1beta1 v1: failed ConversionFailed 4"}, got)
	contains(t, item.Pairs[0].Failures[0].Message, "the converter is out of order", "it is usually intact")
	text := b.must(t, 2, "roundtrip", name).stdout
	if contains(t, text, "some objects failed", "failed in 4 objects (a/object-000000, a/object-000002, b/object-000001)"); strings.Contains(text, "nothing lost") {
		t.Errorf("it claims what it cannot know: %s", text)
	}
}

// TestRoundtripWithoutObjects makes samples up.
func TestRoundtripWithoutObjects(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.hostPorts(t, "empty.example.com", hook(t, func(object map[string]any, from, to string) {
		hostPort(object, from, to)
		if spec, ok := object["spec"].(map[string]any); ok && spec["replicas"] == int64(0) {
			delete(spec, "replicas") // As omitempty does.
		}
	}), 0)
	item, got := b.roundtrip(t, 2, name)
	if item.Objects != 0 || item.Generated == 0 || !slices.Contains(got, "v1 v1beta1: lost spec.replicas conversion v1 0") {
		t.Errorf("%d objects, %d samples: %q", item.Objects, item.Generated, got)
	}
	b.create(t, "empty.example.com", "v1beta1", 2, func(int) map[string]any { return map[string]any{"hostPort": "s3cret:1", "replicas": int64(1)} })
	b.roundtrip(t, 0, name)
	item, _ = b.roundtrip(t, 2, name, "--generate")
	if item.Objects != 2 || item.Generated == 0 {
		t.Errorf("%+v", item)
	}
}

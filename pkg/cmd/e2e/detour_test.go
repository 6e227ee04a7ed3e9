package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// tightened creates a CRD with n sound objects at v1beta1 and two that the schema
// of v1 refuses although they were never changed: one lacks what is required at
// the root, one an item's key (fact 12).
func (b *bed) tightened(t *testing.T, group string, n int) string {
	t.Helper()
	c := crontabs(group, "v1beta1", "v1")
	items := func(keyed bool) apiextensionsv1.JSONSchemaProps {
		text := apiextensionsv1.JSONSchemaProps{Type: "string"}
		item := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"key": text, "val": text}}
		list := apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}
		if keyed {
			kind := "map"
			item.Required, list.XListType, list.XListMapKeys = []string{"key"}, &kind, []string{"key"}
		}
		return list
	}
	for i := range c.Spec.Versions {
		v := &c.Spec.Versions[i]
		v.Schema.OpenAPIV3Schema.Properties["spec"].Properties["items"] = items(v.Name == "v1")
	}
	testbed.Version(c, "v1").Schema.OpenAPIV3Schema.Required = []string{"spec"}
	name := b.createCRD(t, c)
	b.createObjects(t, group, "v1beta1", n, "a", "b")
	bare := newCronTab(group, "v1beta1", "a", "no-spec", 0)
	delete(bare.Object, "spec")
	b.createOne(t, bare)
	keyless := newCronTab(group, "v1beta1", "b", "no-key", 0)
	keyless.Object["spec"].(map[string]any)["items"] = []any{map[string]any{"val": "1"}}
	b.createOne(t, keyless)
	return name
}

// TestFact12RefusedThroughTheOldVersion is fact 12 and case 67: objects that the
// schema of the new version refuses are named, and the plan offers the version that
// takes them as they are; with it, everything is rewritten, proven and trimmed, and
// nothing is altered. What the version would lose is not sent through it.
func TestFact12RefusedThroughTheOldVersion(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, n = "case67.example.com", 6
	name := b.tightened(t, group, n)
	contents, before := b.contents(t, group), b.revisions(t)
	offer := "kubectl crdver promote v1 " + name + " --refused-through v1beta1"
	for _, more := range [][]string{{"--yes"}, {"--dry-run=server"}} {
		got := b.must(t, 3, append([]string{"promote", "v1", name}, more...)...)
		contains(t, got.stdout+got.stderr, "the server would refuse to rewrite 2 of 8 objects", "a/no-spec: Invalid: ", "b/no-key: Invalid: ", "v1beta1 takes them as they are", offer)
	}
	plan := b.planned(t, 3, "promote", "v1", name, "--dry-run=server")
	if r := plan.Summary.Rehearsal; r == nil || r.RefusedCount != 2 || len(r.Detours) != 1 || r.Detours[0] != (v1alpha1.Detour{Version: "v1beta1", Objects: 2}) {
		t.Errorf("rehearsal: %+v", r)
	}
	plan = b.planned(t, 0, "promote", "v1", name, "--refused-through", "v1beta1", "--dry-run=server")
	if r := plan.Summary.Rehearsal; r == nil || r.RefusedCount != 0 || len(r.Detours) != 1 || r.Sampled != n+2 {
		t.Errorf("rehearsal: %+v", r)
	}
	b.wantUnwritten(t, before)

	got := b.must(t, 0, "promote", "v1", name, "--refused-through", "v1beta1", "--yes")
	contains(t, got.stderr, "the schema of v1 refuses 2 objects, which v1beta1 takes without a loss", "through v1, those that its schema refuses through v1beta1")
	contains(t, got.stdout, "8 objects: ", "proof: ")
	b.wantStored(t, group, map[string]int{"v1": n + 2})
	b.wantContents(t, group, contents)
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1"})
	// Everything is current: nothing is written again.
	objects := b.revisions(t)
	b.must(t, 0, "migrate", name, "--refused-through", "v1beta1", "--force", "--yes")
	after := b.revisions(t)
	for key, revision := range objects {
		if after[key] != revision && key != "/registry/apiextensions.k8s.io/customresourcedefinitions/"+name {
			t.Errorf("%s was written again", key)
		}
	}
	// What the plan warns of is so: through v1, not even a finalizer can be changed.
	for version, allowed := range map[string]bool{"v1": false, "v1beta1": true} {
		_, err := b.objects(t).Resource(resource(group, version)).Namespace("a").Patch(t.Context(), "no-spec", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":["example.com/`+version+`"]}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if (err == nil) != allowed {
			t.Errorf("a finalizer through %s: %v", version, err)
		}
	}
	// Without v1beta1 nobody could change them: they keep it from leaving until
	// they are mended.
	contains(t, b.must(t, 3, "retire", "v1beta1", name, "--yes").stderr, "a/no-spec: Invalid: ", "b/no-key: Invalid: ")
	old := b.objects(t).Resource(resource(group, "v1beta1"))
	for namespace, fix := range map[string][2]string{
		"a": {"no-spec", `{"spec":{"cronSpec":"* * * * *"}}`}, "b": {"no-key", `{"spec":{"items":[{"key":"k","val":"1"}]}}`},
	} {
		if _, err := old.Namespace(namespace).Patch(t.Context(), fix[0], types.MergePatchType, []byte(fix[1]), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.must(t, 0, "retire", "v1beta1", name, "--yes")
	b.wantStored(t, group, map[string]int{"v1": n + 2})
}

// TestDetourLosesNothing has refused objects with a field that only one of the
// versions knows: the old one would drop it, or the next write of anybody through
// the new one.
func TestDetourLosesNothing(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	for _, test := range []struct {
		knows, createAt, says string
	}{
		{"v1", "v1", "v1beta1 would lose or change spec.extra"},
		{"v1beta1", "v1beta1", "v1beta1 would lose or change spec.extra"},
	} {
		t.Run("only "+test.knows+" knows it", func(t *testing.T) {
			group := "knows-" + test.knows + ".example.com"
			c := crontabs(group, "v1beta1", "v1")
			testbed.Version(c, test.knows).Schema.OpenAPIV3Schema.Properties["spec"].Properties["extra"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
			name := b.createCRD(t, c)
			b.createObjects(t, group, "v1beta1", 4, "a")
			b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, test.createAt) })
			b.persists(t, group, test.createAt)
			object := newCronTab(group, test.createAt, "b", "extra", 1)
			object.Object["spec"].(map[string]any)["extra"] = "s3cret"
			b.createOne(t, object)
			b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
				testbed.SetStorageVersion(c, "v1")
				schema := testbed.Version(c, "v1").Schema.OpenAPIV3Schema
				schema.Required = []string{"owner"}
				schema.Properties["owner"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
				schema = testbed.Version(c, "v1beta1").Schema.OpenAPIV3Schema
				schema.Properties["owner"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
			})
			contents, before := b.contents(t, group), b.revisions(t)
			plan := b.planned(t, 3, "migrate", name, "--dry-run=server")
			if r := plan.Summary.Rehearsal; r == nil || r.RefusedCount != 5 || len(r.Detours) != 1 || r.Detours[0].Objects != 4 {
				t.Errorf("rehearsal: %+v", r)
			}
			for _, blocker := range plan.Blockers {
				if text, err := json.Marshal(blocker); err != nil || blocker.ID == "rehearsal-refused" && strings.Contains(string(text), "refused-through") {
					t.Errorf("it is offered although it does not take all: %s, %v", text, err)
				}
			}
			got := b.must(t, 3, "migrate", name, "--refused-through", "v1beta1", "--yes")
			contains(t, got.stderr, "the server would refuse to rewrite 1 of 5 objects", "b/extra", test.says)
			b.wantUnwritten(t, before)
			b.wantContents(t, group, contents)
		})
	}
}

// TestDetourOfBadInput has what cannot lead anywhere.
func TestDetourOfBadInput(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.createCRD(t, crontabs("nowhere.example.com", "v1beta1", "v1", "v1alpha1"))
	b.createObjects(t, "nowhere.example.com", "v1beta1", 2, "a")
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
		testbed.SetStorageVersion(c, "v1")
		testbed.Version(c, "v1alpha1").Served = false
	})
	hooked := b.createCRD(t, startWebhook(t).converted("hooked-nowhere.example.com"))
	before := b.revisions(t)
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"migrate", name, "--refused-through", "v1beta2"}, `has no version "v1beta2"`},
		{[]string{"migrate", name, "--refused-through", "v1"}, "are rewritten through v1 in any case"},
		{[]string{"migrate", name, "--refused-through", "v1alpha1"}, "v1alpha1 is not served"},
		{[]string{"migrate", name, "--refused-through", ""}, "--refused-through is empty"},
		{[]string{"migrate", name, "--refused-through", "v1beta1", "--path", "status"}, "does not fit --path status"},
		{[]string{"migrate", name, "--refused-through", "v1beta1", "--engine", "in-tree"}, "does not know --refused-through"},
		{[]string{"promote", "v1", hooked, "--refused-through", "v1beta1"}, "converted by a webhook"},
		{[]string{"retire", "v1beta1", name, "--refused-through", "v1beta1"}, "unknown flag: --refused-through"},
	} {
		contains(t, b.must(t, 1, append(test.args, "--yes")...).stderr, test.says)
	}
	b.wantUnwritten(t, before)
}

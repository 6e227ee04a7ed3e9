package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// flatten returns every leaf of a document by its path, with the versions by
// their name.
func flatten(into map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			flatten(into, path+"."+key, child)
		}
		if len(v) == 0 {
			into[path] = "{}"
		}
	case []any:
		for i, child := range v {
			key := fmt.Sprint(i)
			if object, ok := child.(map[string]any); ok && strings.HasSuffix(path, ".versions") {
				key = fmt.Sprint(object["name"])
			}
			flatten(into, path+"["+key+"]", child)
		}
	default:
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // It was decoded from JSON.
		}
		into[path] = string(text)
	}
}

// fields returns the CRD as the server gives it, leaf by leaf, but for what the
// server itself keeps.
func (b *bed) fields(t *testing.T, name string) map[string]string {
	t.Helper()
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	object, err := b.objects(t).Resource(crds).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"managedFields", "resourceVersion", "generation"} {
		delete(object.Object["metadata"].(map[string]any), own)
	}
	delete(object.Object["status"].(map[string]any), "conditions")
	all := map[string]string{}
	flatten(all, "", object.Object)
	return all
}

// changes returns the paths that differ, with both values.
func changes(before, after map[string]string) []string {
	var differ []string
	for path := range before {
		if before[path] != after[path] {
			differ = append(differ, fmt.Sprintf("%s: %s -> %s", path, before[path], after[path]))
		}
	}
	for path := range after {
		if _, ok := before[path]; !ok {
			differ = append(differ, fmt.Sprintf("%s: -> %s", path, after[path]))
		}
	}
	slices.Sort(differ)
	return differ
}

// TestOnlyTheIntendedFieldsChange takes a CRD that uses every field there is
// through each command, and compares the whole of it before and after.
func TestOnlyTheIntendedFieldsChange(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	hook := startWebhook(t)
	const group, n = "fields.example.com", 30
	c := hook.converted(group)
	owner := true
	c.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm", "olm.managed": "true"}
	c.Annotations = map[string]string{
		"cert-manager.io/inject-ca-from": "ns/cert", "meta.helm.sh/release-name": "release", "example.com/odd": "a/b~c",
		"kubectl.kubernetes.io/last-applied-configuration": `{"spec":{}}`,
	}
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "pkg.example.com/v1", Kind: "Revision", Name: "r1", UID: "u1", Controller: &owner, BlockOwnerDeletion: &owner}}
	c.Finalizers = []string{"example.com/finalizer"}
	c.Spec.Names.Categories = []string{"all", "cron"}
	replicas, selector := ".spec.replicas", ".status.selector"
	for i := range c.Spec.Versions {
		v := &c.Spec.Versions[i]
		v.Subresources.Scale = &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: replicas, StatusReplicasPath: ".status.replicas", LabelSelectorPath: &selector}
		v.AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Image", Type: "string", JSONPath: ".spec.image", Priority: 1}}
		// Not the same for all: the server then refuses them beside different schemas.
		v.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.image"}, {JSONPath: ".spec.replicas"}}[:1+i]
		spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
		spec.Description = `<b> & "quotes" — ünïcode`
		spec.XValidations = apiextensionsv1.ValidationRules{{Rule: "self.replicas >= 0", Message: "not negative"}}
		keep := true
		spec.Properties["free"] = apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}
		v.Schema.OpenAPIV3Schema.Properties["spec"] = spec
	}
	name := b.createCRD(t, c)
	b.createObjects(t, group, "v1", n, "a", "b")
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"deprecate", "v1beta1", name, "--yes"}, []string{
			`.spec.versions[v1beta1].deprecated: -> true`,
			`.spec.versions[v1beta1].deprecationWarning: -> "fields.example.com/v1beta1 CronTab is deprecated; use fields.example.com/v1 CronTab"`,
		}},
		{[]string{"deprecate", "v1beta1", name, "--undo", "--yes"}, []string{
			`.spec.versions[v1beta1].deprecated: true -> `,
			`.spec.versions[v1beta1].deprecationWarning: "fields.example.com/v1beta1 CronTab is deprecated; use fields.example.com/v1 CronTab" -> `,
		}},
		{[]string{"promote", "v1", name, "--yes"}, []string{
			`.spec.versions[v1].storage: false -> true`,
			`.spec.versions[v1beta1].storage: true -> false`,
			`.status.storedVersions[0]: "v1beta1" -> "v1"`,
		}},
		{[]string{"retire", "v1beta1", name, "--until", "unserve", "--yes"}, []string{
			`.spec.versions[v1beta1].deprecated: -> true`,
			`.spec.versions[v1beta1].deprecationWarning: -> "fields.example.com/v1beta1 CronTab is deprecated; use fields.example.com/v1 CronTab"`,
			`.spec.versions[v1beta1].served: true -> false`,
		}},
		{[]string{"restore", "v1beta1", name, "--yes"}, []string{`.spec.versions[v1beta1].served: false -> true`}},
		{[]string{"migrate", name, "--force", "--yes"}, nil},
	} {
		before := b.fields(t, name)
		b.must(t, 0, test.args...)
		if got := changes(before, b.fields(t, name)); !slices.Equal(got, test.want) && len(got)+len(test.want) > 0 {
			t.Errorf("%q changed\n%s\nwant\n%s", test.args, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
	}

	before := b.fields(t, name)
	b.must(t, 0, "retire", "v1beta1", name, "--yes")
	after := b.fields(t, name)
	maps.DeleteFunc(before, func(path, _ string) bool { return strings.HasPrefix(path, ".spec.versions[v1beta1]") })
	want := []string{`.metadata.annotations.crdver.dev/retired: -> "v1beta1"`}
	if got := changes(before, after); !slices.Equal(got, want) {
		t.Errorf("retire changed\n%s\nbeside the version, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	b.wantStored(t, group, map[string]int{"v1": n})
	if hook.calls.Load() == 0 {
		t.Error("the webhook was never called: the test tests nothing")
	}
}

// TestWebhook promotes objects whose field has another name at each version:
// etcd has them in the new form. While the webhook fails, nothing is written.
func TestWebhook(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	hook := startWebhook(t)
	const group, n = "webhook.example.com", 40
	name := b.createCRD(t, hook.converted(group))
	b.createObjects(t, group, "v1", n, "a", "b")
	b.wantSpecField(t, group, "schedule", n)

	hook.broken.Store(true)
	before := b.revisions(t)
	got := b.must(t, 3, "promote", "v1", name, "--yes")
	contains(t, got.stderr, "the converter is out of order")
	if strings.Contains(got.stderr, "corrupt") && !strings.Contains(got.stderr, "usually intact") {
		t.Errorf("it calls intact objects corrupt: %s", got.stderr)
	}
	b.wantUnwritten(t, before)

	hook.broken.Store(false)
	got = b.must(t, 0, "promote", "v1", name, "--yes")
	if strings.Contains(got.stderr, "not what the webhook loses") {
		t.Errorf("the webhook was not asked what it loses: %s", got)
	}
	contains(t, got.stdout+got.stderr, fmt.Sprintf("Conversion webhook: %d of %d objects sent from v1beta1 to v1 and back, 0 field paths lost or changed", n, n))
	b.wantStored(t, group, map[string]int{"v1": n})
	b.wantSpecField(t, group, "cronSpec", n)
	b.must(t, 0, "retire", "v1beta1", name, "--yes")
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	b.wantSpecField(t, group, "cronSpec", n)
}

// wantSpecField makes sure that n objects in etcd have a field, and those of
// the other name none.
func (b *bed) wantSpecField(t *testing.T, group, field string, n int) {
	t.Helper()
	stored, err := testbed.Stored(t.Context(), b.Etcd(), group, testbed.CronTabPlural)
	if err != nil {
		t.Fatal(err)
	}
	with := 0
	for _, object := range stored {
		var body struct{ Spec map[string]any }
		if err := object.Unmarshal(&body); err != nil {
			t.Fatal(err)
		}
		_, has := body.Spec[field]
		_, one := body.Spec["schedule"]
		_, two := body.Spec["cronSpec"]
		if has && one != two {
			with++
		}
	}
	if with != n || len(stored) != n {
		t.Errorf("%d of %d objects in etcd have spec.%s alone, want %d", with, len(stored), field, n)
	}
}

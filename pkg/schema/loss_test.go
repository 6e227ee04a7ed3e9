package schema_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/schema"
)

func TestLostThrough(t *testing.T) {
	t.Parallel()
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	version := func(name string, served, storage bool, fields ...string) apiextensionsv1.CustomResourceDefinitionVersion {
		spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
		for _, field := range fields {
			spec.Properties[field] = text
		}
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: served, Storage: storage,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
			}},
		}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{
		version("v1alpha1", false, false, "a", "ancient"), // Stored only if somebody trimmed too early.
		version("v1alpha2", false, false, "a", "old"),
		version("v1beta1", true, false, "a", "legacy"),
		version("v1", true, true, "a", "b"),
	}
	crd.Status.StoredVersions = []string{"v1alpha2", "v1"}
	want := []schema.VersionLoss{
		{Version: "v1alpha1", Fields: []string{"spec.ancient"}},
		{Version: "v1alpha2", Listed: true, Fields: []string{"spec.old"}},
		{Version: "v1beta1", Served: true, Fields: []string{"spec.legacy"}},
	}
	if diff := cmp.Diff(want, schema.LostThrough(crd, "v1")); diff != "" {
		t.Error(diff)
	}
	want = []schema.VersionLoss{
		{Version: "v1alpha1", Fields: []string{"spec.ancient"}},
		{Version: "v1alpha2", Listed: true, Fields: []string{"spec.old"}},
		{Version: "v1", Served: true, Listed: true, Fields: []string{"spec.b"}},
	}
	if diff := cmp.Diff(want, schema.LostThrough(crd, "v1beta1")); diff != "" {
		t.Error(diff)
	}
	// Where the storage version is not served, it prunes as well as the endpoint.
	crd.Spec.Versions[3].Served = false
	want = []schema.VersionLoss{
		{Version: "v1alpha1", Fields: []string{"spec.ancient"}},
		{Version: "v1alpha2", Listed: true, Fields: []string{"spec.old"}},
		{Version: "v1beta1", Served: true, Fields: []string{"spec.legacy"}},
		{Version: "v1", Listed: true, Fields: []string{"spec.b"}},
	}
	if diff := cmp.Diff(want, schema.LostThrough(crd, "v1beta1")); diff != "" {
		t.Error(diff)
	}
	if got := schema.LostThrough(crd, "v2"); len(got) != 3 { // Through v1 alone.
		t.Errorf("through a version that there is not: %v", got)
	}
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
	if got := schema.LostThrough(crd, "v1"); got != nil {
		t.Errorf("with a webhook: %v", got)
	}
	crd.Spec.Conversion, crd.Spec.PreserveUnknownFields = nil, true
	if got := schema.LostThrough(crd, "v1"); got != nil {
		t.Errorf("where nothing is pruned: %v", got)
	}
}

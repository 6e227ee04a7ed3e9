package plan

import (
	"encoding/json"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// lastApplied is the annotation in which "kubectl apply" keeps the manifest.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// definition returns the entry of spec.versions for a version that is missing,
// where it comes from, and why that one. The server prunes and defaults an object
// with the schema of the version that it is persisted at as soon as it reads it,
// and with that of the version of the request afterwards. So the added schema can
// only take away: one that keeps everything leaves it to the storage version's,
// and to the rehearsal, what is lost.
func (b *builder) definition(version string) (entry apiextensionsv1.CustomResourceDefinitionVersion, source, why string) {
	for _, given := range b.intent.Definitions {
		if given.Name == version {
			return *given.DeepCopy(), "from " + b.intent.DefinitionSource,
				"as asked for with -f; what it lacks is dropped when an object is read, and its defaults are added, before anything can compare"
		}
	}
	if entry := b.history(version); entry != nil && !b.intent.Preserve {
		return *entry, "that of the last-applied manifest",
			"kubectl apply left it in an annotation of the CRD; what it lacks was never stored (--preserve keeps every field, too)"
	}
	if b.intent.DefinitionSource != "" && !b.intent.Preserve {
		b.warn("%s has no version %s of %s: the version gets a schema that keeps every field", b.intent.DefinitionSource, version, b.state.CRD.Name)
	}
	keep := true
	entry.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
		Type: "object", XPreserveUnknownFields: &keep,
	}}
	why = "nobody knows the one it had"
	if b.intent.Preserve {
		why = "as asked for with --preserve"
	}
	return entry, "one that keeps every field", why +
		"; it drops nothing and adds nothing when an object is read, so that the schema of the storage version alone decides"
}

// history returns the version as the last manifest had it that was applied with
// kubectl, or nil. managedFields tell no schemas: spec.versions is atomic.
func (b *builder) history(version string) *apiextensionsv1.CustomResourceDefinitionVersion {
	var applied apiextensionsv1.CustomResourceDefinition
	text := b.state.CRD.Annotations[lastApplied]
	if text == "" || json.Unmarshal([]byte(text), &applied) != nil || applied.APIVersion != apiextensionsv1.SchemeGroupVersion.String() {
		return nil
	}
	for i := range applied.Spec.Versions {
		if v := &applied.Spec.Versions[i]; v.Name == version && v.Schema != nil {
			return v
		}
	}
	return nil
}

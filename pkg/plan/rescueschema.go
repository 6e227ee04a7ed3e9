package plan

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/schema"
)

// keepsAll says what the schema of a version that a rescue adds is like.
const keepsAll = "one that keeps every field"

// definition returns the entry of spec.versions for a version that is missing.
// The server prunes and defaults an object with the schema of the version that it
// is persisted at as soon as it reads it, and with that of the version of the
// request afterwards. So the added schema can only take away, unseen by any
// rehearsal. No manifest, old or last applied, proves which fields were stored: the
// schema may have been patched since. One that keeps everything leaves it to the
// storage version's, and to the rehearsal, what is lost; and it goes with the version.
func definition(version string) apiextensionsv1.CustomResourceDefinitionVersion {
	keep := true
	return apiextensionsv1.CustomResourceDefinitionVersion{
		Name: version,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", XPreserveUnknownFields: &keep,
		}},
	}
}

// tellLosses says which fields the manifest of -f gives a version that the storage
// version's schema lacks: before the version is there, nobody can look at objects.
// A webhook may bring such fields elsewhere.
func (b *builder) tellLosses(version string) {
	source := b.intent.DefinitionSource
	if source == "" {
		return
	}
	for _, given := range b.intent.Definitions {
		if given.Name != version {
			continue
		}
		b.warn("%s tells which fields %s had, and is not used as its schema: what that lacks would be dropped before anything can compare, "+
			"and its defaults are not added; to bring %[2]s back with it: kubectl crdver restore %[2]s %[3]s -f MANIFEST",
			source, version, b.state.CRD.Name)
		if fields := b.lacks(given); len(fields) > 0 && !b.state.Webhook() {
			b.warn("the schema of %s lacks fields that %s has in %s: %s; what objects have there is lost by any rewrite",
				b.state.Storage, version, source, join(fields))
		}
		return
	}
	b.warn("%s has no version %s of %s: it tells nothing about its fields", source, version, b.state.CRD.Name)
}

// lacks returns the fields of a definition that the storage version's schema lacks;
// none where upstream's code cannot read one of the two.
func (b *builder) lacks(given apiextensionsv1.CustomResourceDefinitionVersion) []string {
	c := b.state.CRD.DeepCopy()
	c.Spec.Versions = append(c.Spec.Versions, *given.DeepCopy())
	had, err := schema.ForVersion(c, given.Name)
	if err != nil {
		return nil
	}
	has, err := schema.ForVersion(c, b.state.Storage)
	if err != nil {
		return nil
	}
	return has.Missing(had)
}

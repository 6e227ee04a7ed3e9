package schema

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// VersionLoss is what objects may have of one version of a CRD that a write through
// another one drops for good.
type VersionLoss struct {
	Version string
	// Served says that the objects can be read at the version, so that it can be
	// seen whether they have the fields.
	Served bool
	// Fields are the paths that [Schema.Missing] gives.
	Fields []string
}

// LostThrough returns what a rewrite of the objects of a live CRD through the
// endpoint of a version may drop: with strategy None, what is stored is pruned as
// the schema of that version says (fact 6). What is stored may have the fields of
// each version that it may be persisted at; of each that is served, too, because
// somebody may have trimmed status.storedVersions. Without anything, the schemas
// alone prove that no field is lost. Schemas that upstream's code cannot read are the server's to refuse.
func LostThrough(crd *apiextensionsv1.CustomResourceDefinition, endpoint string) []VersionLoss {
	if crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter {
		return nil // A webhook may keep what it likes: round trips show it.
	}
	through, err := ForVersion(crd, endpoint)
	if err != nil {
		return nil
	}
	var losses []VersionLoss
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Name == endpoint || !v.Served && !v.Storage && !slices.Contains(crd.Status.StoredVersions, v.Name) {
			continue
		}
		known, err := ForVersion(crd, v.Name)
		if err != nil {
			continue
		}
		if fields := through.Missing(known); len(fields) > 0 {
			losses = append(losses, VersionLoss{Version: v.Name, Served: v.Served, Fields: fields})
		}
	}
	return losses
}

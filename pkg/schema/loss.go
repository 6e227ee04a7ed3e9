package schema

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// VersionLoss is what objects may have of one version of a CRD that a write through
// another one may drop or change for good.
type VersionLoss struct {
	Version string
	// Served says that the objects can be read at the version, so that it can be
	// seen whether they have the fields. Listed says that status.storedVersions has
	// it, or that it is the storage version: of the others, objects are persisted at
	// them only where somebody trimmed the list too early.
	Served, Listed bool
	// Fields are the paths that [Schema.Unproven] gives.
	Fields []string
}

// LostThrough returns what a rewrite of the objects of a live CRD through the
// endpoint of a version may drop: with strategy None, what is stored is pruned as
// the schema of that version says (fact 6), and as that of the storage version says,
// which is another one only where it is not served. Without anything, the schemas
// alone prove that no field is lost. Schemas that upstream's code cannot read are the
// server's to refuse.
func LostThrough(crd *apiextensionsv1.CustomResourceDefinition, endpoint string) []VersionLoss {
	if crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter {
		return nil // A webhook may keep what it likes: round trips show it.
	}
	through := []string{endpoint}
	for _, v := range crd.Spec.Versions {
		if v.Storage && !v.Served && v.Name != endpoint {
			through = append(through, v.Name)
		}
	}
	var losses []VersionLoss
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if fields := lostThrough(crd, v.Name, through); len(fields) > 0 {
			losses = append(losses, VersionLoss{
				Version: v.Name, Served: v.Served, Listed: v.Storage || slices.Contains(crd.Status.StoredVersions, v.Name), Fields: fields,
			})
		}
	}
	return losses
}

// lostThrough returns what versions may drop of another one.
func lostThrough(crd *apiextensionsv1.CustomResourceDefinition, from string, through []string) []string {
	known, err := ForVersion(crd, from)
	if err != nil {
		return nil
	}
	var fields []string
	for _, name := range through {
		if name == from {
			continue
		}
		if to, err := ForVersion(crd, name); err == nil {
			fields = append(fields, to.Unproven(known)...)
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

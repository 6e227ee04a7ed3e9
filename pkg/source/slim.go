package source

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// Slim returns a copy of a CRD without what takes the most memory and says
// nothing about the life of its versions: schemas, columns, the manifest that
// kubectl remembers, and the text that it was read from. The copy keeps nothing else of the CRD alive.
func Slim(one crd.CRD) crd.CRD {
	definition := *one.CustomResourceDefinition
	definition.Spec.Versions = slices.Clone(definition.Spec.Versions)
	for i := range definition.Spec.Versions {
		version := &definition.Spec.Versions[i]
		version.Schema = nil
		version.AdditionalPrinterColumns = nil
		version.SelectableFields = nil
	}
	if _, remembered := definition.Annotations[corev1.LastAppliedConfigAnnotation]; remembered {
		definition.Annotations = maps.Clone(definition.Annotations)
		delete(definition.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	origin := one.Origin
	origin.Document, origin.JSON, origin.Internal = nil, nil, nil
	return crd.CRD{CustomResourceDefinition: &definition, Origin: origin}
}

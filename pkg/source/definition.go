package source

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// crd decodes a CRD.
func (d *decoder) crd(doc document, text []byte) (loaded, error) {
	if helmTemplate(doc.template, text) {
		return loaded{}, doc.errorf(doc.first, errHelm)
	}
	var fields struct {
		APIVersion string          `json:"apiVersion"`
		Status     json.RawMessage `json:"status"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &fields); err != nil {
		return loaded{}, doc.errorf(doc.first, "not a %s: %w", kindCRD, err)
	}
	definition, err := d.typed(fields.APIVersion, text)
	if err != nil {
		return loaded{}, doc.errorf(doc.first, "%w", err)
	}
	origin := doc.origin(doc.first)
	origin.APIVersion = fields.APIVersion
	if origin.Document = doc.place(); origin.Document != nil && definition.internal != nil {
		origin.Document.V1beta1 = true
		origin.Document.Common = common(definition.internal)
	}
	origin.JSON = text
	origin.Internal = definition.internal
	origin.UnknownFields = definition.unknown
	return loaded{
		CRD:       crd.CRD{CustomResourceDefinition: definition.v1, Origin: origin},
		hasStatus: !slices.Contains([]string{"", "null", "{}"}, string(fields.Status)),
	}, nil
}

// common returns the fields that a v1beta1 manifest has for all versions.
func common(internal *apiextensions.CustomResourceDefinition) []string {
	var fields []string
	for field, isSet := range map[string]bool{
		"validation":               internal.Spec.Validation != nil,
		"subresources":             internal.Spec.Subresources != nil,
		"additionalPrinterColumns": internal.Spec.AdditionalPrinterColumns != nil,
	} {
		if isSet {
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	return fields
}

// typed is a decoded manifest.
type typed struct {
	v1       *apiextensionsv1.CustomResourceDefinition
	internal *apiextensions.CustomResourceDefinition
	unknown  []string
}

// typed decodes a CRD. A v1 manifest is taken as it is written; a v1beta1 one is
// defaulted and converted as the API server did it.
func (d *decoder) typed(apiVersion string, text []byte) (definition typed, err error) {
	definition.v1 = &apiextensionsv1.CustomResourceDefinition{}
	switch apiVersion {
	case apiextensionsv1.SchemeGroupVersion.String():
		_, _, err := d.codecs.UniversalDeserializer().Decode(text, nil, definition.v1)
		if definition.unknown, err = unknownFields(err); err != nil {
			return typed{}, fmt.Errorf("not a valid %s: %w", kindCRD, err)
		}
	case apiextensionsv1beta1.SchemeGroupVersion.String():
		object, err := runtime.Decode(d.codecs.UniversalDecoder(), text)
		if definition.unknown, err = unknownFields(err); err != nil {
			return typed{}, fmt.Errorf("not a valid %s of v1beta1: %w", kindCRD, err)
		}
		internal, ok := object.(*apiextensions.CustomResourceDefinition)
		if !ok {
			return typed{}, fmt.Errorf("not a valid %s of v1beta1, but a %T", kindCRD, object)
		}
		// What is converted shares memory with what it was converted from.
		definition.internal = internal.DeepCopy()
		definition.internal.Status = apiextensions.CustomResourceDefinitionStatus{}
		if err := d.scheme.Convert(internal, definition.v1, nil); err != nil {
			return typed{}, fmt.Errorf("a %s that cannot be converted to v1: %w", kindCRD, err)
		}
		definition.v1.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind(kindCRD))
	default:
		return typed{}, fmt.Errorf("apiVersion %q is not one of a %s: use %s", apiVersion, kindCRD, apiextensionsv1.SchemeGroupVersion)
	}
	// The server ignores a status on create; what it says was never true here.
	definition.v1.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	return definition, nil
}

// unknownFields takes the fields that no CRD has out of an error of a strict
// decoder: without them the manifest is as good as any. The status is left out,
// it has no effect anyway.
func unknownFields(err error) ([]string, error) {
	strict, ok := runtime.AsStrictDecodingError(err)
	if !ok {
		return nil, err
	}
	var unknown []string
	for _, one := range strict.Errors() {
		quoted, isUnknown := strings.CutPrefix(one.Error(), "unknown field ")
		path, unquoted := strconv.Unquote(quoted)
		if !isUnknown || unquoted != nil {
			return nil, one
		}
		if !strings.HasPrefix(path, "status.") {
			unknown = append(unknown, path)
		}
	}
	return unknown, nil
}

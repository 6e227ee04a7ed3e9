// Package schema answers questions about the structural schema of a version of
// a CRD as the API server answers them, with the server's own code and without
// a server.
package schema

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// Schema is the structural schema of one version of a CRD.
type Schema struct {
	// root is nil for a version without a schema: such a version knows nothing
	// but apiVersion, kind and metadata.
	root *structuralschema.Structural
}

// New returns the schema of a version of a CRD. It fails where the schema is
// not structural; a live CRD always has a structural one. A CRD with
// spec.preserveUnknownFields needs [ForVersion].
func New(version *apiextensionsv1.CustomResourceDefinitionVersion) (*Schema, error) {
	if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
		return &Schema{}, nil
	}
	var internal apiextensions.JSONSchemaProps
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &internal, nil)
	if err != nil {
		return nil, fmt.Errorf("converting the schema of version %s: %w", version.Name, err)
	}
	root, err := structuralschema.NewStructural(&internal)
	if err != nil {
		return nil, fmt.Errorf("the schema of version %s is not structural: %w", version.Name, err)
	}
	return &Schema{root: root}, nil
}

// ForVersion returns the schema of the version of a CRD with that name. With
// spec.preserveUnknownFields, which only CRDs created as v1beta1 can have, the
// server prunes nothing, and the schema need not even be structural: every field
// is known.
func ForVersion(crd *apiextensionsv1.CustomResourceDefinition, name string) (*Schema, error) {
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Name != name {
			continue
		}
		if crd.Spec.PreserveUnknownFields {
			return &Schema{root: &structuralschema.Structural{
				Extensions: structuralschema.Extensions{XPreserveUnknownFields: true},
			}}, nil
		}
		return New(&crd.Spec.Versions[i])
	}
	return nil, fmt.Errorf("CRD %s has no version %s", crd.Name, name)
}

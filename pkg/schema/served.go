package schema

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
)

// Served returns the schema of a version as the server uses it: it prunes the
// defaults before it serves the version (customresource_handler.go).
func Served(crd *apiextensionsv1.CustomResourceDefinition, name string) (*Schema, error) {
	known, err := ForVersion(crd, name)
	if err != nil || known.root == nil || crd.Spec.PreserveUnknownFields {
		return known, err
	}
	root := known.root.DeepCopy()
	if err := defaulting.PruneDefaults(root); err != nil {
		return nil, fmt.Errorf("pruning the defaults of version %s: %w", name, err)
	}
	return &Schema{root: root}, nil
}

// Coerce does to an object what the server does when it decodes it and after
// each conversion: it drops what the schema does not know, nulls that it does not
// allow, and malformed metadata of embedded resources. Unlike [Schema.Prune] it
// does not tell what it dropped, and costs less.
func (s *Schema) Coerce(object map[string]any) error {
	pruning.Prune(object, s.root, true)
	if s.root == nil {
		return nil
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(object, s.root)
	if err := objectmeta.Coerce(nil, object, s.root, false, true); err != nil {
		return fmt.Errorf("an embedded resource: %s", err.Field) // The rest of the text has values.
	}
	return nil
}

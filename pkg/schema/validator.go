package schema

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// Validator checks custom resources of one version as the API server does. It is
// expensive to make, compiles the CEL rules once, and can be used by several
// goroutines.
type Validator struct {
	schema *Schema
	values validation.SchemaValidator
	rules  *cel.Validator
	// texts are what the CEL rules can say without showing a value.
	texts map[string]bool
}

// NewValidator returns the validator of a version of a CRD.
func NewValidator(crd *apiextensionsv1.CustomResourceDefinition, version string) (*Validator, error) {
	known, err := ForVersion(crd, version)
	if err != nil {
		return nil, err
	}
	v := &Validator{schema: known, texts: map[string]bool{}}
	if root := known.root; root != nil {
		// The server prunes defaults before it serves the version (customresource_handler.go).
		root = root.DeepCopy()
		if err := defaulting.PruneDefaults(root); err != nil {
			return nil, fmt.Errorf("pruning the defaults of version %s: %w", version, err)
		}
		v.schema = &Schema{root: root}
		v.rules = cel.NewValidator(root, true, celconfig.PerCallLimit)
		v.texts = ruleTexts(root)
	}
	props, err := internalProps(crd, version)
	if err != nil {
		return nil, err
	}
	if v.values, _, err = validation.NewSchemaValidator(props); err != nil {
		return nil, fmt.Errorf("the schema of version %s: %w", version, err)
	}
	return v, nil
}

// internalProps returns the schema of a version as it is written, nil if there
// is none.
func internalProps(crd *apiextensionsv1.CustomResourceDefinition, version string) (*apiextensions.JSONSchemaProps, error) {
	for i := range crd.Spec.Versions {
		entry := &crd.Spec.Versions[i]
		if entry.Name != version || entry.Schema == nil || entry.Schema.OpenAPIV3Schema == nil {
			continue
		}
		props := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(entry.Schema.OpenAPIV3Schema, props, nil); err != nil {
			return nil, fmt.Errorf("converting the schema of version %s: %w", version, err)
		}
		return props, nil
	}
	return nil, nil
}

// Schema returns the schema that is checked against.
func (v *Validator) Schema() *Schema { return v.schema }

// Decode does to an object what the server does when it reads one: it prunes
// it, drops nulls that the schema does not allow, and sets defaults. It returns
// the paths that pruning dropped, as [Schema.Prune] does.
func (v *Validator) Decode(object map[string]any) []string {
	dropped := v.schema.Prune(object)
	if root := v.schema.root; root != nil {
		defaulting.PruneNonNullableNullsWithoutDefaults(object, root)
		defaulting.Default(object, root)
	}
	return dropped
}

// Validate returns why the server would refuse to create an object, or nil. The
// violations do not show values of the object.
func (v *Validator) Validate(ctx context.Context, object map[string]any) []Violation {
	errs := validation.ValidateCustomResource(nil, object, v.values)
	errs = append(errs, v.structure(ctx, object)...)
	if v.rules != nil && !blocking(errs) {
		broken, _ := v.rules.Validate(ctx, nil, v.schema.root, object, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, broken...)
	}
	return v.violations(errs)
}

// ValidateRewrite returns why the server would refuse to write an object again
// as it is. It is less than what Validate returns: values that were invalid
// before and do not change are let through, except for what is required at the
// root and the keys of list items (fact 12).
func (v *Validator) ValidateRewrite(ctx context.Context, object map[string]any) []Violation {
	old := before(object)
	correlation := common.NewCorrelatedObject(object, old, &model.Structural{Structural: v.schema.root})
	errs := validation.ValidateCustomResourceUpdate(nil, object, old, v.values, validation.WithRatcheting(correlation))
	errs = append(errs, objectmeta.Validate(ctx, nil, object, v.schema.root, false)...)
	if v.rules != nil && !blocking(errs) {
		broken, _ := v.rules.Validate(ctx, nil, v.schema.root, object, old, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(correlation))
		errs = append(errs, broken...)
	}
	return v.violations(errs)
}

// before returns the object as it was before a rewrite. A real one never equals
// the new one at the root, because a write changes metadata; if it did, upstream
// would forgive what is wrong at the root as well.
func before(object map[string]any) map[string]any {
	old := maps.Clone(object)
	metadata, _ := object["metadata"].(map[string]any)
	changed := map[string]any{}
	maps.Copy(changed, metadata)
	changed["resourceVersion"] = "before"
	old["metadata"] = changed
	return old
}

// structure checks what kube-openapi's validation does not know of: embedded
// resources, and lists that are sets or maps.
func (v *Validator) structure(ctx context.Context, object map[string]any) field.ErrorList {
	errs := objectmeta.Validate(ctx, nil, object, v.schema.root, false)
	return append(errs, listtype.ValidateListSetsAndMaps(nil, v.schema.root, object)...)
}

// blocking reports whether the server leaves the CEL rules out because of other
// errors (hasBlockingErr in registry/customresource/strategy.go).
func blocking(errs field.ErrorList) bool {
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		default:
		}
	}
	return false
}

// ruleTexts returns the messages of the CEL rules of a schema, as upstream words
// them.
func ruleTexts(root *structuralschema.Structural) map[string]bool {
	texts := map[string]bool{}
	visitor := structuralschema.Visitor{Structural: func(s *structuralschema.Structural) bool {
		for _, rule := range s.XValidations {
			texts[ruleText(rule)] = true
		}
		return false
	}}
	visitor.Visit(root)
	return texts
}

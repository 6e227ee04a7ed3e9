// Package crd holds a CustomResourceDefinition, where it came from, and small
// accessors for its versions.
package crd

import (
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apiversion"
)

// CRD is a CustomResourceDefinition and its origin. It is always
// apiextensions.k8s.io/v1; a v1beta1 manifest was converted by upstream's code.
type CRD struct {
	*apiextensionsv1.CustomResourceDefinition

	Origin Origin
}

// Live returns a CRD as the API server returned it.
func Live(definition *apiextensionsv1.CustomResourceDefinition) CRD {
	return CRD{CustomResourceDefinition: definition, Origin: Origin{APIVersion: apiextensionsv1.SchemeGroupVersion.String()}}
}

// Origin is where a CRD was read from.
type Origin struct {
	// File is the file's name, "-" for standard input, and empty for a cluster.
	File string
	// Line is the first line of the document in the file, from 1; 0 if unknown.
	Line int
	// APIVersion is the manifest's own, apiextensions.k8s.io/v1 or v1beta1.
	APIVersion string
	// Context is the kubeconfig context of a live CRD.
	Context string

	// Document is the text of the manifest; nil for a live CRD, for one of a
	// kustomization, whose output is in no file, and for a slim copy.
	Document *Document
	// JSON is the manifest as it was written, in JSON; see Values.
	JSON []byte
	// Internal is a v1beta1 manifest as the API server validates it, with the
	// defaults of v1beta1; nil for any other. Conversion to v1 hides mistakes that
	// the server refuses: fields that are set both for all versions and for one.
	Internal *apiextensions.CustomResourceDefinition
	// UnknownFields are the paths of fields that no CRD has. "kubectl apply" is
	// refused for them; without strict validation the server drops them. In them,
	// the keys of maps follow a dot: "spec.versions[0].schema.openAPIV3Schema.
	// properties.spec.typ".
	UnknownFields []string
}

// Live reports whether the CRD was read from a cluster. Only then do its
// status and its stored versions mean anything.
func (o Origin) Live() bool { return o.File == "" }

// String returns "file:line" or "cluster".
func (o Origin) String() string {
	switch {
	case o.Live():
		return "cluster"
	case o.Line > 0:
		return fmt.Sprintf("%s:%d", o.File, o.Line)
	default:
		return o.File
	}
}

// Version returns the entry of spec.versions with that name, or nil.
func (c CRD) Version(name string) *apiextensionsv1.CustomResourceDefinitionVersion {
	if i := c.VersionIndex(name); i >= 0 {
		return &c.Spec.Versions[i]
	}
	return nil
}

// VersionIndex returns the place of a version in spec.versions, or -1.
func (c CRD) VersionIndex(name string) int {
	return slices.IndexFunc(c.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == name
	})
}

// names returns the names of the versions that match, highest priority first.
func (c CRD) names(match func(apiextensionsv1.CustomResourceDefinitionVersion) bool) []string {
	names := make([]string, 0, len(c.Spec.Versions))
	for _, v := range c.Spec.Versions {
		if match(v) {
			names = append(names, v.Name)
		}
	}
	apiversion.Sort(names)
	return names
}

// VersionNames returns all versions, highest priority first.
func (c CRD) VersionNames() []string {
	return c.names(func(apiextensionsv1.CustomResourceDefinitionVersion) bool { return true })
}

// Served returns the served versions, highest priority first.
func (c CRD) Served() []string {
	return c.names(func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served })
}

// Deprecated returns the deprecated versions, highest priority first.
func (c CRD) Deprecated() []string {
	return c.names(func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Deprecated })
}

// StorageVersions returns the versions with storage: true. A live CRD has
// exactly one, a manifest can have none or several.
func (c CRD) StorageVersions() []string {
	return c.names(func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
}

// StorageVersion returns the first version with storage: true, or "".
func (c CRD) StorageVersion() string {
	for _, v := range c.Spec.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return ""
}

// KubectlDefault returns the version that kubectl uses when none is named: the
// highest-priority served one, or "".
func (c CRD) KubectlDefault() string {
	if served := c.Served(); len(served) > 0 {
		return served[0]
	}
	return ""
}

// Condition returns the condition of that type, or nil.
func (c CRD) Condition(
	kind apiextensionsv1.CustomResourceDefinitionConditionType,
) *apiextensionsv1.CustomResourceDefinitionCondition {
	for i := range c.Status.Conditions {
		if c.Status.Conditions[i].Type == kind {
			return &c.Status.Conditions[i]
		}
	}
	return nil
}

// Established reports whether the server serves the CRD.
func (c CRD) Established() bool {
	condition := c.Condition(apiextensionsv1.Established)
	return condition != nil && condition.Status == apiextensionsv1.ConditionTrue
}

// ConversionStrategy returns None or Webhook; an absent strategy is None, as
// the server defaults it.
func (c CRD) ConversionStrategy() apiextensionsv1.ConversionStrategyType {
	if c.Spec.Conversion == nil || c.Spec.Conversion.Strategy == "" {
		return apiextensionsv1.NoneConverter
	}
	return c.Spec.Conversion.Strategy
}

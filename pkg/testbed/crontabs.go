package testbed

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The names of the CRD that CronTabs builds.
const (
	// CronTabGroup is the group of the CRD.
	CronTabGroup = "stable.example.com"
	// CronTabPlural is the resource of the CRD.
	CronTabPlural = "crontabs"
	// CronTabKind is the kind of the CRD.
	CronTabKind = "CronTab"
	// CronTabCRD is the name of the CRD.
	CronTabCRD = CronTabPlural + "." + CronTabGroup
)

// CronTabResource returns the resource of CronTabs at a version.
func CronTabResource(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: CronTabGroup, Version: version, Resource: CronTabPlural}
}

// CronTabs builds the CRD crontabs.stable.example.com of the Kubernetes
// documentation with the versions that are named. All are served, the first one
// is the storage version, and all have the same schema: spec.cronSpec,
// spec.image, spec.replicas and status.replicas, with the status subresource. It
// is namespaced, its short name is ct and it converts with None. Tests change
// what they need changed: [Version], [SetStorageVersion].
func CronTabs(versions ...string) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: CronTabCRD},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: CronTabGroup,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural:     CronTabPlural,
				Singular:   "crontab",
				Kind:       CronTabKind,
				ListKind:   "CronTabList",
				ShortNames: []string{"ct"},
			},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter},
		},
	}
	for i, name := range versions {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name:         name,
			Served:       true,
			Storage:      i == 0,
			Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: cronTabSchema()},
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{
				{Name: "Spec", Type: "string", JSONPath: ".spec.cronSpec"},
				{Name: "Replicas", Type: "integer", JSONPath: ".spec.replicas"},
			},
		})
	}
	return crd
}

// cronTabSchema returns a new copy of the schema of the versions of CronTabs.
func cronTabSchema() *apiextensionsv1.JSONSchemaProps {
	return &apiextensionsv1.JSONSchemaProps{
		Type: "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"spec": {
				Type: "object",
				Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"cronSpec": {Type: "string"},
					"image":    {Type: "string"},
					"replicas": {Type: "integer"},
				},
			},
			"status": {
				Type: "object",
				Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"replicas": {Type: "integer"},
				},
			},
		},
	}
}

// Version returns the version of a CRD with a name, to change it, or nil.
func Version(crd *apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.CustomResourceDefinitionVersion {
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Name == name {
			return &crd.Spec.Versions[i]
		}
	}
	return nil
}

// SetStorageVersion makes the version with a name the only storage version of
// the CRD. It sends nothing to a server.
func SetStorageVersion(crd *apiextensionsv1.CustomResourceDefinition, name string) {
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Storage = crd.Spec.Versions[i].Name == name
	}
}

// NewCronTab builds a CronTab. i distinguishes it from others: it is
// spec.replicas.
func NewCronTab(version, namespace, name string, i int) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"cronSpec": fmt.Sprintf("%d * * * *", i%60),
			"image":    "example.com/cron:v1",
			"replicas": int64(i),
		},
	}}
	object.SetAPIVersion(CronTabGroup + "/" + version)
	object.SetKind(CronTabKind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

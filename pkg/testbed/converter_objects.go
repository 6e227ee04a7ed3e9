package testbed

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// HostPorts builds the CRD crontabs.GROUP, whose objects a [Converter] converts:
// v1beta1, the storage version, has spec.hostPort, v1 has spec.host and spec.port.
// All else is the same in both: spec.image, spec.size, spec.settings, which keeps
// unknown fields, and status. Its conversion strategy is None until a test
// changes that.
func HostPorts(group string) *apiextensionsv1.CustomResourceDefinition {
	crd := CronTabs("v1beta1", "v1")
	crd.Spec.Group = group
	crd.Name = crd.Spec.Names.Plural + "." + group
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		version.AdditionalPrinterColumns = nil
		version.Schema.OpenAPIV3Schema = hostPortSchema(version.Name)
	}
	return crd
}

// hostPortSchema returns a new copy of the schema of a version of [HostPorts].
func hostPortSchema(version string) *apiextensionsv1.JSONSchemaProps {
	text, preserve := apiextensionsv1.JSONSchemaProps{Type: "string"}, true
	spec := map[string]apiextensionsv1.JSONSchemaProps{
		"image":    text,
		"size":     {Type: "integer", Format: "int64"},
		"settings": {Type: "object", XPreserveUnknownFields: &preserve},
	}
	if version == "v1" {
		spec["host"], spec["port"] = text, text
	} else {
		spec["hostPort"] = text
	}
	return &apiextensionsv1.JSONSchemaProps{
		Type: "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"spec": {Type: "object", Properties: spec},
			"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"replicas": {Type: "integer"}, "phase": text,
			}},
		},
	}
}

// largeSize is an integer that a float64 cannot hold.
const largeSize = 1<<53 + 1

// NewHostPort builds an object of [HostPorts]. i distinguishes it from others.
// Its size is larger than a float64 can tell exactly.
func NewHostPort(group, version, namespace, name string, i int) *unstructured.Unstructured {
	spec := map[string]any{
		"image": "example.com/cron:v1", "size": int64(largeSize + 2*i), "settings": map[string]any{"level": int64(i)},
	}
	if version == "v1" {
		spec["host"], spec["port"] = "localhost", fmt.Sprint(1000+i)
	} else {
		spec["hostPort"] = fmt.Sprintf("localhost:%d", 1000+i)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetAPIVersion(group + "/" + version)
	object.SetKind(CronTabKind)
	object.SetNamespace(namespace)
	object.SetName(name)
	object.SetLabels(map[string]string{"app": "cron"})
	object.SetAnnotations(map[string]string{"example.com/note": "kept"})
	return object
}

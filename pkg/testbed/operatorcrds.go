package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// operatorCRDs is how many CRDs of OperatorCRD are in one group.
const operatorCRDs = 20

// StoreCRDs puts CRDs into etcd as they are, which should be Established: to
// create them through the server takes four writes each, and a second or two on a
// busy machine.
func StoreCRDs(ctx context.Context, etcd *clientv3.Client, crds int, build func(i int) *apiextensionsv1.CustomResourceDefinition) error {
	for i := range crds {
		crd := build(i)
		text, err := json.Marshal(crd)
		if err != nil {
			return fmt.Errorf("encoding CRD %s: %w", crd.Name, err)
		}
		if _, err := etcd.Put(ctx, etcdPrefix+"/apiextensions.k8s.io/customresourcedefinitions/"+crd.Name, string(text)); err != nil {
			return fmt.Errorf("storing CRD %s: %w", crd.Name, err)
		}
	}
	return nil
}

// OperatorCRD returns a CRD of 50 KB like those that controller-gen writes, with a
// number. Twenty of them share a group, as those of an operator do. It has three
// versions with a schema of 17 KB each, half of it descriptions. Only one is
// served: a server needs gigabytes for the OpenAPI documents of all, which no
// client here reads.
func OperatorCRD(i int) *apiextensionsv1.CustomResourceDefinition {
	group := fmt.Sprintf("operator%02d.example.com", i/operatorCRDs)
	plural := fmt.Sprintf("widget%04ds", i)
	names := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: plural, Singular: strings.TrimSuffix(plural, "s"),
		Kind: fmt.Sprintf("Widget%04d", i), ListKind: fmt.Sprintf("Widget%04dList", i),
	}
	one := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{
			Name: plural + "." + group, UID: types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)), Generation: 1,
			CreationTimestamp: metav1.NewTime(time.Unix(1_790_000_000, 0)),
			Labels:            map[string]string{"app.kubernetes.io/name": "operator"},
			Annotations:       map[string]string{"controller-gen.kubebuilder.io/version": "v0.17.0"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped, Names: names,
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			AcceptedNames: names, StoredVersions: []string{"v1"},
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts", Message: "no conflicts found"},
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, Reason: "InitialNamesAccepted", Message: "the initial names have been accepted"},
			},
		},
	}
	for _, name := range []string{"v1alpha1", "v1beta1", "v1"} {
		one.Spec.Versions = append(one.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: name == "v1", Storage: name == "v1",
			Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: operatorSchema()},
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		})
	}
	return one
}

func operatorSchema() *apiextensionsv1.JSONSchemaProps {
	text := "describes one part of what the operator does with the widget, its default, and when it may be left out. "
	field := func(i int) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{
			Type: "object", Description: fmt.Sprintf("Field%02d %s", i, text),
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"name":     {Type: "string", MinLength: new(int64), Description: "name " + text},
				"replicas": {Type: "integer", Format: "int32", Description: "replicas " + text},
				"mode":     {Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"Fast"`)}, {Raw: []byte(`"Safe"`)}}},
				"labels": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{
					Allows: true, Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"},
				}},
				"items": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{
					Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"key": {Type: "string"}, "value": {Type: "string", Description: text},
					}},
				}},
			},
			Required: []string{"name"},
		}
	}
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	for i := range 19 {
		spec.Properties[fmt.Sprintf("field%02d", i)] = field(i)
	}
	return &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": spec, "status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"phase": {Type: "string"}}},
	}}
}

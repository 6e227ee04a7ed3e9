package etcd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// definition is what counts of a CRD, which is the same in v1 and v1beta1, but
// that v1beta1 may have a single spec.version.
type definition struct {
	Metadata struct {
		Name        string    `json:"name"`
		UID         types.UID `json:"uid"`
		Annotations struct {
			// Retired is v1alpha1.AnnotationRetired. It is kept and nothing else is: others are as large as the CRD.
			Retired string `json:"crdver.dev/retired"`
		} `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Group    string                                        `json:"group"`
		Names    apiextensionsv1.CustomResourceDefinitionNames `json:"names"`
		Scope    apiextensionsv1.ResourceScope                 `json:"scope"`
		Version  string                                        `json:"version"`
		Versions []struct {
			Name    string `json:"name"`
			Served  bool   `json:"served"`
			Storage bool   `json:"storage"`
		} `json:"versions"`
	} `json:"spec"`
	Status struct {
		StoredVersions []string `json:"storedVersions"`
	} `json:"status"`
}

// Definitions are the CRDs of an etcd, without their schemas, and of their
// annotations with the one that tells which versions were removed.
type Definitions struct {
	// Items are in the order of their names.
	Items []*apiextensionsv1.CustomResourceDefinition
	// Unreadable are those that could not be read, in the order of their names.
	Unreadable []UnreadableCRD
}

// UnreadableCRD is a CRD that is in etcd and could not be read.
type UnreadableCRD struct{ Name, Reason string }

// Target returns the resource that it must be of: a CRD is called PLURAL.GROUP.
func (u UnreadableCRD) Target() Target { return TargetNamed(u.Name) }

// TargetNamed returns the resource of a CRD that only the name is known of.
func TargetNamed(name string) Target { return Target{Resource: schema.ParseGroupResource(name)} }

// Get returns the CRD of a name, or nil.
func (d Definitions) Get(name string) *apiextensionsv1.CustomResourceDefinition {
	for _, item := range d.Items {
		if item.Name == name {
			return item
		}
	}
	return nil
}

// Has reports whether there is a CRD of a name, readable or not.
func (d Definitions) Has(name string) bool {
	return d.Get(name) != nil || slices.ContainsFunc(d.Unreadable, func(one UnreadableCRD) bool { return one.Name == name })
}

// ReadDefinitions reads the CRDs that are in etcd.
func ReadDefinitions(ctx context.Context, source Source) (Definitions, error) {
	resource := schema.GroupResource{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}
	reader := &definitionReader{}
	if err := source.Scan(ctx, []schema.GroupResource{resource}, reader); err != nil {
		return Definitions{}, err
	}
	slices.SortFunc(reader.found.Items, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(reader.found.Unreadable, func(a, b UnreadableCRD) int { return cmp.Compare(a.Name, b.Name) })
	return reader.found, nil
}

type definitionReader struct{ found Definitions }

func (r *definitionReader) Begin(schema.GroupResource, int64) { r.found = Definitions{} }

func (r *definitionReader) Visit(object Object) {
	one, err := decodeDefinition(object.Value)
	if err == nil && one.Name != object.Name() {
		err = fmt.Errorf("it says that it is %s", one.Name)
	}
	if err != nil {
		r.found.Unreadable = append(r.found.Unreadable, UnreadableCRD{Name: object.Name(), Reason: err.Error()})
		return
	}
	r.found.Items = append(r.found.Items, one)
}

// decodeDefinition decodes a CRD as an API server persists it: as JSON, since
// nothing tells it otherwise; newer ones may be told to write CBOR.
func decodeDefinition(value []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	head := ReadHead(value)
	var read definition
	var err error
	switch {
	case head.Provider != "":
		return nil, fmt.Errorf("it is encrypted (%s)", head.Provider)
	case bytes.HasPrefix(value, []byte(protobufPrefix)):
		return decodeProtobuf(head, value[len(protobufPrefix):])
	case bytes.HasPrefix(value, []byte(cborPrefix)):
		var object map[string]any
		if err = direct.Unmarshal(value, &object); err == nil {
			err = convert(object, &read)
		}
	default:
		err = json.Unmarshal(value, &read)
	}
	if err != nil {
		// The text of the error may quote the value.
		return nil, fmt.Errorf("it cannot be decoded (%T)", err)
	}
	return read.crd(), nil
}

// crd returns the definition as a CRD.
func (d definition) crd() *apiextensionsv1.CustomResourceDefinition {
	var annotations map[string]string
	if retired := d.Metadata.Annotations.Retired; retired != "" {
		annotations = map[string]string{v1alpha1.AnnotationRetired: retired}
	}
	one := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: d.Metadata.Name, UID: d.Metadata.UID, Annotations: annotations},
		Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Group: d.Spec.Group, Names: d.Spec.Names, Scope: d.Spec.Scope},
		Status:     apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: d.Status.StoredVersions},
	}
	for _, v := range d.Spec.Versions {
		one.Spec.Versions = append(one.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: v.Name, Served: v.Served, Storage: v.Storage})
	}
	if len(one.Spec.Versions) == 0 && d.Spec.Version != "" {
		one.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: d.Spec.Version, Served: true, Storage: true}}
	}
	return one
}

// decodeProtobuf decodes what an API server of another make persisted.
func decodeProtobuf(head Head, value []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	var unknown runtime.Unknown
	if unknown.Unmarshal(value) != nil {
		return nil, errProtobuf
	}
	var read definition
	var err error
	switch head.APIVersion {
	case apiextensionsv1.SchemeGroupVersion.String():
		var one apiextensionsv1.CustomResourceDefinition
		if err = one.Unmarshal(unknown.Raw); err == nil {
			err = convert(one, &read)
		}
	case apiextensionsv1beta1.SchemeGroupVersion.String():
		var one apiextensionsv1beta1.CustomResourceDefinition
		if err = one.Unmarshal(unknown.Raw); err == nil {
			err = convert(one, &read)
		}
	default:
		err = errProtobuf
	}
	if err != nil {
		return nil, errProtobuf
	}
	return read.crd(), nil
}

// convert goes through JSON, which takes the fields by their names.
func convert(from any, to *definition) error {
	text, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encoding a CRD: %w", err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("decoding a CRD: %w", err)
	}
	return nil
}

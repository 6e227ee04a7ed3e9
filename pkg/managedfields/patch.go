package managedfields

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Patch returns the merge patch that moves an object's entries as [Move] does.
// needed is false where no entry is of from. The patch carries the object's
// resourceVersion: 404 and 409 are outcomes, and what somebody else wrote in
// between is not undone. It replaces the whole list, because a JSON patch of
// single entries answers 422 instead of 409 when the list has become shorter.
//
// The answer has to be looked at. The server keeps the old list and answers 200
// when it cannot use the new one: when another entry names a version that is
// gone, or, with the conversion strategy None, one whose schema lacks a field
// that the object has at the version of the request. [PatchAll] for all versions
// but to helps.
func Patch(
	meta *metav1.PartialObjectMetadata, from, to string, known func(fieldpath.Path) bool,
) (body []byte, needed bool, err error) {
	return PatchAll(meta, func(apiVersion string) bool { return apiVersion == from }, to, known)
}

// PatchAll is [Patch] for the entries of every group/version that stale accepts.
func PatchAll(
	meta *metav1.PartialObjectMetadata, stale func(apiVersion string) bool, to string, known func(fieldpath.Path) bool,
) (body []byte, needed bool, err error) {
	entries, needed, _, err := MoveAll(meta.ManagedFields, stale, to, known)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", objectName(meta), err)
	}
	if !needed {
		return nil, false, nil
	}
	if meta.ResourceVersion == "" {
		return nil, false, fmt.Errorf("%s: %w", objectName(meta), errors.New("it has no resourceVersion"))
	}
	var patch patch
	patch.Metadata.ResourceVersion = meta.ResourceVersion
	patch.Metadata.ManagedFields = entries
	if body, err = json.Marshal(patch); err != nil {
		return nil, false, fmt.Errorf("%s: encoding the patch: %w", objectName(meta), err)
	}
	return body, true, nil
}

// patch is a merge patch.
type patch struct {
	Metadata struct {
		ResourceVersion string                      `json:"resourceVersion"`
		ManagedFields   []metav1.ManagedFieldsEntry `json:"managedFields"`
	} `json:"metadata"`
}

func objectName(meta *metav1.PartialObjectMetadata) string {
	if meta.Namespace == "" {
		return meta.Name
	}
	return meta.Namespace + "/" + meta.Name
}

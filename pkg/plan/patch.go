package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// The patches are RFC 6902 operations on exactly the fields that change. A
// merge patch would have to carry the whole of spec.versions, and an apply
// owns all of it (fact 17): either can put back what somebody else changed.

// value encodes v, which is always a plain document of ours or of upstream.
func value(v any) *apiextensionsv1.JSON {
	raw, err := json.Marshal(v)
	if err != nil {
		// Only unsupported types fail, and there are none in these documents.
		panic(fmt.Sprintf("encoding %T: %v", v, err))
	}
	return &apiextensionsv1.JSON{Raw: raw}
}

// jsonPatch returns a patch of a subresource, or of the main resource where it is "", and of nothing else.
func jsonPatch(subresource string, body ...v1alpha1.PatchOperation) *v1alpha1.Patch {
	return &v1alpha1.Patch{Type: "json", Subresource: subresource, Body: body}
}

// versionPath returns the JSON pointer of a field of a version.
func versionPath(index int, field string) string {
	return fmt.Sprintf("/spec/versions/%d/%s", index, field)
}

// testName makes sure that the version at that place is the one that is meant.
func testName(index int, version string) v1alpha1.PatchOperation {
	return v1alpha1.PatchOperation{Op: "test", Path: versionPath(index, "name"), Value: value(version)}
}

// setFlag sets served or storage, which v1 always has.
func setFlag(index int, field string, to bool) v1alpha1.PatchOperation {
	return v1alpha1.PatchOperation{Op: "replace", Path: versionPath(index, field), Value: value(to)}
}

// annotationPath returns the JSON pointer of an annotation.
func annotationPath(key string) string {
	return "/metadata/annotations/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

// Annotate is the operation that sets an annotation.
func Annotate(key, text string) v1alpha1.PatchOperation {
	return v1alpha1.PatchOperation{Op: "add", Path: annotationPath(key), Value: value(text)}
}

// unannotate is the operation that removes an annotation, which has to be there.
func unannotate(key string) v1alpha1.PatchOperation {
	return v1alpha1.PatchOperation{Op: "remove", Path: annotationPath(key)}
}

// EndBrownout returns the patch that serves a version again and removes the
// annotation of the brownout, if it is there.
func EndBrownout(index int, version string, annotations map[string]string) *v1alpha1.Patch {
	patch := jsonPatch("", testName(index, version), setFlag(index, "served", true))
	if _, found := annotations[lifecycle.BrownoutAnnotation]; found {
		patch.Body = append(patch.Body, unannotate(lifecycle.BrownoutAnnotation))
	}
	return patch
}

// flagChange is the change of a flag of a version, for people.
func flagChange(version, field string, to bool) v1alpha1.Change {
	return v1alpha1.Change{
		Path: fmt.Sprintf("spec.versions[%s].%s", version, field),
		From: fmt.Sprint(!to),
		To:   fmt.Sprint(to),
	}
}

// setDeprecated makes the operations and changes that deprecate a version or
// take it back; an empty warning removes it. "add" on an object member sets it
// whether it is there or not (RFC 6902, 4.1).
func setDeprecated(
	index int, entry *apiextensionsv1.CustomResourceDefinitionVersion, deprecated bool, warning string,
) (operations []v1alpha1.PatchOperation, changes []v1alpha1.Change) {
	operations = append(operations, testName(index, entry.Name))
	if entry.Deprecated != deprecated {
		operations = append(operations, v1alpha1.PatchOperation{
			Op: "add", Path: versionPath(index, "deprecated"), Value: value(deprecated),
		})
		changes = append(changes, flagChange(entry.Name, "deprecated", deprecated))
	}
	old := ""
	if entry.DeprecationWarning != nil {
		old = *entry.DeprecationWarning
	}
	if old != warning {
		path := versionPath(index, "deprecationWarning")
		if warning == "" {
			operations = append(operations, v1alpha1.PatchOperation{Op: "remove", Path: path})
		} else {
			operations = append(operations, v1alpha1.PatchOperation{Op: "add", Path: path, Value: value(warning)})
		}
		changes = append(changes, v1alpha1.Change{
			Path: fmt.Sprintf("spec.versions[%s].deprecationWarning", entry.Name), From: quote(old), To: quote(warning),
		})
	}
	entry.Deprecated = deprecated
	entry.DeprecationWarning = nil
	if warning != "" {
		entry.DeprecationWarning = &warning
	}
	return operations, changes
}

func quote(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%q", s)
}

// join lists names as people do.
func join(names []string) string { return strings.Join(names, ", ") }

// bracket lists names as a JSON-like list.
func bracket(names []string) string { return "[" + strings.Join(names, ", ") + "]" }

// Body returns the patch with its preconditions: the UID is tested, so that a
// CRD that was created again is left alone, and the resourceVersion is set to
// the one that was read, which makes the server answer 409 where it is another.
// An annotation needs the map it goes into: a CRD that has none gets an empty one
// first, of which nothing else can be lost.
func Body(patch v1alpha1.Patch, read metav1.Object) ([]byte, error) {
	operations := []v1alpha1.PatchOperation{
		{Op: "test", Path: "/metadata/uid", Value: value(string(read.GetUID()))},
		{Op: "replace", Path: "/metadata/resourceVersion", Value: value(read.GetResourceVersion())},
	}
	annotates := func(o v1alpha1.PatchOperation) bool { return strings.HasPrefix(o.Path, annotationPath("")) }
	if len(read.GetAnnotations()) == 0 && slices.ContainsFunc(patch.Body, annotates) {
		operations = append(operations, v1alpha1.PatchOperation{Op: "add", Path: "/metadata/annotations", Value: value(struct{}{})})
	}
	operations = append(operations, patch.Body...)
	body, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return body, nil
}

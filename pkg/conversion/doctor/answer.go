package doctor

import (
	"fmt"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// maxAnnotations is what the API server allows in total.
const maxAnnotations = validation.TotalAnnotationSizeLimitB

// violation is one thing in an answer that is not as the protocol has it.
type violation struct {
	check, message string
	// harmless says that the API server does not mind at all.
	harmless bool
}

// violations returns everything that is wrong with an answer, each kind once,
// and the objects in it, in the order of those that were sent, as far as they can
// be told. Sizes of annotations are
// left to the tally.
func (e *examination) violations(a attempt) (found []violation, objects []map[string]any) {
	add := func(check, format string, args ...any) {
		if !slices.ContainsFunc(found, func(v violation) bool { return v.check == check }) {
			found = append(found, violation{check: check, message: fmt.Sprintf(format, args...)})
		}
	}
	if failure := a.failure(e.Limit); failure != "" {
		add(checkHTTPStatus, "%s", failure)
		return found, nil
	}
	if a.response.Status != http.StatusOK {
		// The API server's client takes any that means success.
		found = append(found, violation{check: checkHTTPStatus, message: fmt.Sprintf("HTTP status %d", a.response.Status), harmless: true})
	}
	if media, _, err := mime.ParseMediaType(a.response.ContentType); err != nil || media != "application/json" {
		add(checkContentType, "%s; the API server does not mind", contentType(a.response.ContentType))
	}
	answer := a.answer()
	if answer == nil {
		add(checkJSON, "no JSON: %d bytes of something else", len(a.response.Body))
		return found, nil
	}
	if answer.APIVersion != a.request.APIVersion || answer.Kind != "ConversionReview" {
		add(checkReviewVersion, "%s, asked in %s", kindOf(answer.APIVersion, answer.Kind), kindOf(a.request.APIVersion, "ConversionReview"))
	}
	if answer.Response == nil {
		add(checkResponse, "no response")
		return found, nil
	}
	if answer.Response.UID != a.request.UID {
		message := "another uid"
		if answer.Response.UID == "" {
			message = "no uid"
		}
		if a.request.APIVersion != apiextensionsv1.SchemeGroupVersion.String() {
			message += "; in v1beta1 the API server does not look"
		}
		add(checkUID, "%s", message)
	}
	if result := answer.Response.Result; result.Status != "Success" {
		add(checkStatusSuccess, "result.status %q, %s", result.Status, e.said(result.Message))
		return found, nil
	}
	if got := len(answer.Response.ConvertedObjects); got != len(a.sent) {
		add(checkCount, "%d objects for %d", got, len(a.sent))
		return found, nil
	}
	for i, raw := range answer.Response.ConvertedObjects {
		var object map[string]any
		if err := utiljson.Unmarshal(raw, &object); err != nil || object == nil {
			add(checkJSON, "object %d is no object", i)
			return found, nil
		}
		objects = append(objects, object)
	}
	if matched := matching(a.sent, objects); matched != nil {
		add(checkOrder, "the objects come back in another order")
		objects = matched // What else is wrong with them is another matter.
	}
	for i := range a.sent {
		compareObject(a.sent[i], objects[i], a.to, add)
	}
	return found, objects
}

func contentType(text string) string {
	if text == "" {
		return "no Content-Type"
	}
	return "Content-Type " + text
}

func kindOf(apiVersion, kind string) string {
	if apiVersion == "" && kind == "" {
		return "neither apiVersion nor kind"
	}
	return apiVersion + " " + kind
}

// identity is what an object is told by.
func identity(object map[string]any) [3]string {
	metadata, _ := object["metadata"].(map[string]any)
	text := func(name string) string { value, _ := metadata[name].(string); return value }
	return [3]string{text("namespace"), text("name"), text("uid")}
}

// matching returns the objects in the order of those that were sent, where they
// are the same in another order; otherwise nil.
func matching(sent, got []map[string]any) []map[string]any {
	places := map[[3]string]int{}
	for i, object := range got {
		places[identity(object)] = i
	}
	if len(places) != len(sent) {
		return nil
	}
	matched, moved := make([]map[string]any, len(sent)), false
	for i, object := range sent {
		at, ok := places[identity(object)]
		if !ok {
			return nil
		}
		matched[i] = got[at]
		moved = moved || at != i
	}
	if !moved {
		return nil
	}
	return matched
}

// compareObject says what is wrong with one converted object.
func compareObject(sent, got map[string]any, to string, add func(check, format string, args ...any)) {
	if got["apiVersion"] != to {
		add(checkVersion, "%v, asked for %s", got["apiVersion"], to)
	}
	if got["kind"] != sent["kind"] {
		add(checkKind, "%v instead of %v", got["kind"], sent["kind"])
	}
	before, _ := sent["metadata"].(map[string]any)
	after, ok := got["metadata"].(map[string]any)
	if !ok && len(before) > 0 {
		add(checkMetadata, "metadata is missing")
		return
	}
	for field, check := range map[string]string{"name": checkName, "namespace": checkNamespace, "uid": checkObjectUID} {
		if empty(before[field]) != empty(after[field]) || !empty(before[field]) && before[field] != after[field] {
			add(check, "metadata.%s is another one", field)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(union(before, after))) {
		switch field {
		case "name", "namespace", "uid", "labels", "annotations":
			continue
		}
		if !(empty(before[field]) && empty(after[field])) && !reflect.DeepEqual(before[field], after[field]) {
			add(checkOtherMetadata, "metadata.%s changes; the API server puts back what was there", field)
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		if was, ok := mapOf(before, field)[probeKey]; ok && mapOf(after, field)[probeKey] != was {
			add(checkLabels, "metadata.%s are not there any more", field)
		}
	}
	validMetadata(after, add)
}

// validMetadata applies the API server's own validation.
func validMetadata(metadata map[string]any, add func(check, format string, args ...any)) {
	for _, field := range []string{"labels", "annotations"} {
		value, there := metadata[field]
		if !there || value == nil {
			continue
		}
		texts := map[string]string{}
		fields, ok := value.(map[string]any)
		for name, value := range fields {
			text, isText := value.(string)
			ok = ok && isText
			texts[name] = text
		}
		switch {
		case !ok:
			add(checkMetadataValid, "metadata.%s are not all texts", field)
		case field == "labels" && len(metav1validation.ValidateLabels(texts, nil)) > 0:
			add(checkMetadataValid, "a label is not valid")
		}
	}
}

// empty reports whether metadata of Go types would leave a value out: an absent
// creationTimestamp often comes back as null.
func empty(value any) bool {
	if value == nil {
		return true
	}
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	default:
		return false
	}
}

func mapOf(fields map[string]any, name string) map[string]any {
	value, _ := fields[name].(map[string]any)
	return value
}

func union(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return all
}

// annotationBytes counts as the API server does.
func annotationBytes(object map[string]any) int {
	total := 0
	metadata, _ := object["metadata"].(map[string]any)
	for key, value := range mapOf(metadata, "annotations") {
		text, _ := value.(string)
		total += len(key) + len(text)
	}
	return total
}

package review

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// Converter converts custom resources to another version of their group. The
// objects that it is given are not changed. It is used by several goroutines.
type Converter interface {
	// Convert returns the objects at apiVersion ("example.com/v1"), in order, as
	// they come from the conversion alone: neither pruned nor defaulted.
	Convert(ctx context.Context, objects []map[string]any, apiVersion string) ([]map[string]any, error)
}

// None is the conversion strategy None: only apiVersion changes.
type None struct{}

// Convert implements [Converter].
func (None) Convert(_ context.Context, objects []map[string]any, apiVersion string) ([]map[string]any, error) {
	converted := make([]map[string]any, len(objects))
	for i, object := range objects {
		converted[i] = runtime.DeepCopyJSON(object)
		converted[i]["apiVersion"] = apiVersion
	}
	return converted, nil
}

// Webhook converts with a webhook, and accepts of its answers what the API
// server accepts (webhook_converter.go).
type Webhook struct {
	Caller Caller
	// ReviewVersion is the version of ConversionReview: "v1" or "v1beta1".
	ReviewVersion string
}

// Convert implements [Converter]. Like the API server, it sends only the objects
// that are not at the version yet.
func (w Webhook) Convert(ctx context.Context, objects []map[string]any, apiVersion string) ([]map[string]any, error) {
	converted := make([]map[string]any, len(objects))
	var places []int
	var sent []map[string]any
	for i, object := range objects {
		if object["apiVersion"] == apiVersion {
			converted[i] = runtime.DeepCopyJSON(object)
			continue
		}
		places, sent = append(places, i), append(sent, object)
	}
	if len(sent) == 0 {
		return converted, nil
	}
	request, err := NewRequest(w.ReviewVersion, sent, apiVersion)
	if err != nil {
		return nil, err
	}
	response, err := w.Caller.Post(ctx, request.Body)
	if err != nil {
		return nil, err
	}
	answers, err := request.Accept(response)
	if err != nil {
		return nil, fmt.Errorf("conversion webhook %s: %w", w.Caller, err)
	}
	for i, answer := range answers {
		if err := Keep(sent[i], answer, apiVersion); err != nil {
			return nil, fmt.Errorf("conversion webhook %s: object %d: %w", w.Caller, i, err)
		}
		converted[places[i]] = answer
	}
	return converted, nil
}

// Request is one ConversionReview, ready to send.
type Request struct {
	Body []byte
	UID  types.UID
	// APIVersion is that of the review, "apiextensions.k8s.io/v1".
	APIVersion string
	// Objects is how many were sent.
	Objects int
}

// NewRequest returns the request to convert objects.
func NewRequest(reviewVersion string, objects []map[string]any, apiVersion string) (Request, error) {
	request := Request{
		UID: uuid.NewUUID(), APIVersion: apiextensionsv1.GroupName + "/" + reviewVersion, Objects: len(objects),
	}
	body := map[string]any{
		"apiVersion": request.APIVersion, "kind": "ConversionReview",
		"request": map[string]any{"uid": string(request.UID), "desiredAPIVersion": apiVersion, "objects": objects},
	}
	var err error
	if request.Body, err = json.Marshal(body); err != nil {
		return Request{}, fmt.Errorf("encoding the ConversionReview: %w", err)
	}
	return request, nil
}

// Answer is a ConversionReview as it came back, with nothing checked.
type Answer struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Response   *struct {
		UID    types.UID `json:"uid"`
		Result struct {
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"result"`
		ConvertedObjects []json.RawMessage `json:"convertedObjects"`
	} `json:"response"`
}

// Accept returns the converted objects of an answer that the API server would
// take, and otherwise the error that it would give.
func (r Request) Accept(response Response) ([]map[string]any, error) {
	if response.Status < http.StatusOK || response.Status >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("it answered with the HTTP status %d", response.Status)
	}
	var answer Answer
	if err := json.Unmarshal(response.Body, &answer); err != nil {
		return nil, fmt.Errorf("its answer is not a ConversionReview: %w", err)
	}
	switch {
	case answer.APIVersion != r.APIVersion || answer.Kind != "ConversionReview":
		return nil, fmt.Errorf("it answered with %s, Kind=%s instead of %s, Kind=ConversionReview", answer.APIVersion, answer.Kind, r.APIVersion)
	case answer.Response == nil:
		return nil, errors.New("no response provided")
	case r.APIVersion == apiextensionsv1.SchemeGroupVersion.String() && answer.Response.UID != r.UID:
		return nil, fmt.Errorf("expected response.uid=%q, got %q", r.UID, answer.Response.UID)
	case answer.Response.Result.Status != "Success":
		if answer.Response.Result.Message != "" {
			return nil, errors.New(answer.Response.Result.Message)
		}
		return nil, fmt.Errorf("response.result.status was %q, not Success", answer.Response.Result.Status)
	case len(answer.Response.ConvertedObjects) != r.Objects:
		return nil, fmt.Errorf("it returned %d objects, expected %d", len(answer.Response.ConvertedObjects), r.Objects)
	}
	objects := make([]map[string]any, r.Objects)
	for i, raw := range answer.Response.ConvertedObjects {
		// Whole numbers stay such, as in the API server's own decoder.
		if err := utiljson.Unmarshal(raw, &objects[i]); err != nil {
			return nil, fmt.Errorf("object %d of its answer: %w", i, err)
		}
		if objects[i] == nil {
			return nil, fmt.Errorf("object %d of its answer is null", i)
		}
	}
	return objects, nil
}

// Keep does to a converted object what the API server does: it refuses another
// kind, name, namespace or UID, and takes of its metadata nothing but the labels
// and annotations; those that the answer leaves out are gone (fact 20).
func Keep(original, converted map[string]any, apiVersion string) error {
	if converted["apiVersion"] != apiVersion {
		return fmt.Errorf("invalid groupVersion (expected %v, received %v)", apiVersion, converted["apiVersion"])
	}
	if converted["kind"] != original["kind"] {
		return fmt.Errorf("invalid kind (expected %v, received %v)", original["kind"], converted["kind"])
	}
	before, _ := original["metadata"].(map[string]any)
	after, ok := converted["metadata"].(map[string]any)
	if !ok && len(before) > 0 {
		return errors.New("it has no metadata")
	}
	for _, field := range []string{"name", "namespace", "uid"} {
		if text(before[field]) != text(after[field]) {
			return fmt.Errorf("must have the same %s: %q != %q", field, text(before[field]), text(after[field]))
		}
	}
	kept := runtime.DeepCopyJSON(before)
	for _, field := range []string{"labels", "annotations"} {
		delete(kept, field)
		if value, ok := after[field]; ok && value != nil {
			kept[field] = value
		}
	}
	converted["metadata"] = kept
	return nil
}

func text(value any) string {
	text, _ := value.(string)
	return text
}

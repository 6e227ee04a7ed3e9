package testbed

import (
	"encoding/json"
	"fmt"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// AnswerConversion answers a request of the API server as the conversion webhook
// of a test does whose objects are few: convert changes an object in place, to
// "group/version", which is set afterwards. What it refuses fails as a whole.
func AnswerConversion(w http.ResponseWriter, r *http.Request, convert func(object *unstructured.Unstructured, to string) error) {
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, fmt.Sprintf("not a ConversionReview: %v", err), http.StatusBadRequest)
		return
	}
	to := review.Request.DesiredAPIVersion
	response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		object := &unstructured.Unstructured{}
		err := object.UnmarshalJSON(raw.Raw)
		if err == nil {
			err = convert(object, to)
		}
		if err != nil {
			response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
			response.ConvertedObjects = nil
			break
		}
		object.SetAPIVersion(to)
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: object})
	}
	review.Request, review.Response = nil, response
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // Whoever asked may be gone.
}

// ConversionAt is what a CRD says to have its objects converted by the webhook at a
// URL. Without review versions it speaks v1.
func ConversionAt(url string, ca []byte, reviewVersions ...string) *apiextensionsv1.CustomResourceConversion {
	if len(reviewVersions) == 0 {
		reviewVersions = []string{"v1"}
	}
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: ca},
			ConversionReviewVersions: reviewVersions,
		},
	}
}

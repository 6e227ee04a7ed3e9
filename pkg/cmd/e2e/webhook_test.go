package e2e_test

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// webhook is a conversion webhook, served with TLS. Before v1, the field
// cronSpec is called schedule.
type webhook struct {
	calls  atomic.Int32
	broken atomic.Bool
	// down makes it close connections without an answer.
	down atomic.Bool
	// flaky makes it answer every fifth call with the HTTP status 500.
	flaky atomic.Bool
	// forgets makes it drop spec.image.
	forgets atomic.Bool
	// ca is the caBundle of its CRDs instead of its own certificate, in DER.
	ca     []byte
	server *httptest.Server
}

func startWebhook(t *testing.T) *webhook {
	t.Helper()
	hook := &webhook{}
	hook.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hook.calls.Add(1)%5 == 0 && hook.flaky.Load() {
			http.Error(w, "now and then", http.StatusInternalServerError)
			return
		}
		if hook.down.Load() {
			panic(http.ErrAbortHandler)
		}
		var review apiextensionsv1.ConversionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
			return
		}
		review.Response = &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
		if hook.broken.Load() {
			review.Response.Result = metav1.Status{Status: metav1.StatusFailure, Message: "the converter is out of order"}
		} else {
			for _, raw := range review.Request.Objects {
				object := convert(t, raw.Raw, review.Request.DesiredAPIVersion)
				if hook.forgets.Load() {
					unstructured.RemoveNestedField(object.Object, "spec", "image")
				}
				review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Object: object})
			}
		}
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(hook.server.Close)
	return hook
}

func convert(t *testing.T, raw []byte, to string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		t.Error(err)
	}
	from, into := "schedule", "cronSpec"
	if !strings.HasSuffix(to, "/v1") {
		from, into = into, from
	}
	if spec, ok := object.Object["spec"].(map[string]any); ok {
		if value, ok := spec[from]; ok {
			spec[into] = value
			delete(spec, from)
		}
	}
	object.SetAPIVersion(to)
	return object
}

func (h *webhook) conversion() *apiextensionsv1.CustomResourceConversion {
	der := h.server.Certificate().Raw
	if h.ca != nil {
		der = h.ca
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &h.server.URL, CABundle: ca},
			ConversionReviewVersions: []string{"v1"},
		},
	}
}

// converted returns a CRD whose objects the webhook converts.
func (h *webhook) converted(group string) *apiextensionsv1.CustomResourceDefinition {
	c := crontabs(group, "v1beta1", "v1")
	c.Spec.Conversion = h.conversion()
	old := c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	old.Properties["schedule"] = old.Properties["cronSpec"]
	delete(old.Properties, "cronSpec")
	c.Spec.Versions[0].AdditionalPrinterColumns = nil
	return c
}

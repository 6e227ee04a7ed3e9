package e2e_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
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
	// forgets makes it drop spec.image, forgetsOf that of one object.
	forgets   atomic.Bool
	forgetsOf atomic.Value
	// serverOnly makes it hang up on whoever is no API server.
	serverOnly atomic.Bool
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
		if hook.down.Load() || hook.serverOnly.Load() && strings.HasPrefix(r.UserAgent(), "Go-http-client") {
			panic(http.ErrAbortHandler)
		}
		testbed.AnswerConversion(w, r, func(object *unstructured.Unstructured, to string) error {
			if hook.broken.Load() {
				return errors.New("the converter is out of order")
			}
			renameSchedule(object.Object, to)
			if hook.forgets.Load() || hook.forgetsOf.Load() == object.GetName() {
				unstructured.RemoveNestedField(object.Object, "spec", "image")
			}
			return nil
		})
	}))
	t.Cleanup(hook.server.Close)
	return hook
}

// renameSchedule converts an object.
func renameSchedule(object map[string]any, to string) {
	from, into := "schedule", "cronSpec"
	if !strings.HasSuffix(to, "/v1") {
		from, into = into, from
	}
	if spec, ok := object["spec"].(map[string]any); ok {
		if value, ok := spec[from]; ok {
			spec[into] = value
			delete(spec, from)
		}
	}
}

func (h *webhook) conversion() *apiextensionsv1.CustomResourceConversion {
	der := h.server.Certificate().Raw
	if h.ca != nil {
		der = h.ca
	}
	return testbed.ConversionAt(h.server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
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

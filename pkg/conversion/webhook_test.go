package conversion_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// startWebhook starts a conversion webhook that calls convert for each object,
// and returns what to write into a CRD.
func startWebhook(t *testing.T, convert func(object map[string]any, to string) error) *apiextensionsv1.CustomResourceConversion {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		testbed.AnswerConversion(w, r, func(object *unstructured.Unstructured, to string) error { return convert(object.Object, to) })
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return testbed.ConversionAt(server.URL, ca)
}

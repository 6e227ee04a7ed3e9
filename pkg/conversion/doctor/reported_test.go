package doctor_test

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/conversion/doctor"
	"github.com/crdver/kubectl-crdver/pkg/conversion/review"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// The names are the numbers of what people reported.

// reported is a CRD as in the reports: one integer or text in each version.
func reported(versions ...string) crd.CRD {
	c := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things.reported.example.dev"}}
	c.Spec.Group, c.Spec.Scope = "reported.example.dev", apiextensionsv1.NamespaceScoped
	c.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"}
	for i, name := range versions {
		c.Spec.Versions = append(c.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: i == 0,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object",
				Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {
					Type:       "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer"}, "raw": {Type: "string"}},
				}},
			}},
		})
	}
	c.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook:  &apiextensionsv1.WebhookConversion{ConversionReviewVersions: []string{"v1"}},
	}
	return crd.CRD{CustomResourceDefinition: c, Origin: crd.Origin{File: "crd.yaml"}}
}

// answerWith examines a webhook whose answers are made of the request and of
// objects that only have another version.
func answerWith(t *testing.T, one crd.CRD, spoil func(review map[string]any, converted []map[string]any)) v1alpha1.CheckedWebhook {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			APIVersion string
			Request    struct {
				UID               string
				DesiredAPIVersion string
				Objects           []map[string]any
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		for _, object := range asked.Request.Objects {
			object["apiVersion"] = asked.Request.DesiredAPIVersion
		}
		response := map[string]any{"uid": asked.Request.UID, "result": map[string]any{"status": "Success"}, "convertedObjects": asked.Request.Objects}
		answer := map[string]any{"apiVersion": asked.APIVersion, "kind": "ConversionReview", "response": response}
		if strings.HasSuffix(asked.Request.DesiredAPIVersion, "unknown") {
			response["result"], response["convertedObjects"] = map[string]any{"status": "Failed", "message": "no such version"}, nil
		} else {
			spoil(answer, asked.Request.Objects)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // Whoever asked may be gone.
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // It crashes on purpose.
	server.StartTLS()
	t.Cleanup(server.Close)
	direct, err := review.NewDirect(server.URL, pemOf(server), "example.com")
	if err != nil {
		t.Fatal(err)
	}
	return check(t, doctor.Options{CRD: one, Caller: direct, TLS: doctor.TLS{Why: "not looked at"}, Calls: 3, Now: time.Now()})
}

func wantCheck(t *testing.T, report v1alpha1.CheckedWebhook, name string, result v1alpha1.CheckResult, says string) {
	t.Helper()
	for _, c := range report.Checks {
		if c.Name == name && c.Result == result && strings.Contains(c.Message, says) {
			return
		}
	}
	t.Errorf("no %s %s with %q in\n%s", name, result, says, text(report))
}

// TestReported57: what a webhook keeps in an annotation makes it larger than the
// API server allows; more than half of that is a warning.
func TestReported57(t *testing.T) {
	t.Parallel()
	keep := func(bytes int) func(map[string]any, []map[string]any) {
		return func(_ map[string]any, converted []map[string]any) {
			if len(converted) > 3 {
				return // So large an answer would be another matter.
			}
			for _, object := range converted {
				if metadata, ok := object["metadata"].(map[string]any); ok {
					metadata["annotations"] = map[string]any{"crdver.dev/webhook-check": "kept", "example.dev/kept": strings.Repeat("x", bytes)}
				}
			}
		}
	}
	wantCheck(t, answerWith(t, reported("v1alpha1", "v1alpha2"), keep(300_000)), "annotation-size", v1alpha1.CheckFailed, "300044 bytes")
	wantCheck(t, answerWith(t, reported("v1alpha1", "v1alpha2"), keep(150_000)), "annotation-size", v1alpha1.CheckWarning, "more than half")
	wantCheck(t, answerWith(t, reported("v1alpha1", "v1alpha2"), keep(10)), "annotation-size", v1alpha1.CheckOK, "at most 54 bytes")
}

// TestReported59: parts of objects make a converter crash, or it adds what was
// not there. The variant is named.
func TestReported59(t *testing.T) {
	t.Parallel()
	report := answerWith(t, reported("v1", "v1beta1"), func(_ map[string]any, converted []map[string]any) {
		for _, object := range converted {
			_ = object["spec"].(map[string]any)["size"]
		}
	})
	wantCheck(t, report, "partial-objects", v1alpha1.CheckFailed, "(only metadata, only labels)")
	report = answerWith(t, reported("v1", "v1beta1"), func(_ map[string]any, converted []map[string]any) {
		for _, object := range converted {
			if spec, ok := object["spec"].(map[string]any); ok && spec["raw"] == nil {
				spec["raw"] = "a default"
			}
		}
	})
	wantCheck(t, report, "partial-objects-additions", v1alpha1.CheckWarning, "empty spec: spec.raw appears")
}

// TestReported61: number, order and uid, one line for each rule that is broken.
func TestReported61(t *testing.T) {
	t.Parallel()
	report := answerWith(t, reported("v1", "v2"), func(answer map[string]any, _ []map[string]any) {
		response(answer)["convertedObjects"] = []any{}
	})
	wantCheck(t, report, "object-count", v1alpha1.CheckFailed, "0 objects for 1")
	report = answerWith(t, reported("v1", "v2"), func(answer map[string]any, _ []map[string]any) { response(answer)["uid"] = "SOMETHING-ELSE" })
	wantCheck(t, report, "uid", v1alpha1.CheckFailed, "another uid")
	report = answerWith(t, reported("v1", "v2"), func(answer map[string]any, converted []map[string]any) {
		for i, j := 0, len(converted)-1; i < j; i, j = i+1, j-1 {
			converted[i], converted[j] = converted[j], converted[i]
		}
		response(answer)["uid"] = "SOMETHING-ELSE"
	})
	wantCheck(t, report, "uid", v1alpha1.CheckFailed, "4 of 4 answers")
	wantCheck(t, report, "object-order", v1alpha1.CheckFailed, "2 of 4 answers")
}

// TestReported63: each listed version of ConversionReview is asked separately.
func TestReported63(t *testing.T) {
	t.Parallel()
	onlyV1 := func(answer map[string]any, _ []map[string]any) { answer["apiVersion"] = "apiextensions.k8s.io/v1" }
	both := reported("v1", "v1alpha1")
	both.Spec.Conversion.Webhook.ConversionReviewVersions = []string{"v1", "v1beta1"}
	report := answerWith(t, both, onlyV1)
	wantCheck(t, report, "review-version", v1alpha1.CheckOK, "in all of 4 answers")
	wantCheck(t, report, "review-v1beta1", v1alpha1.CheckFailed, "asked in apiextensions.k8s.io/v1beta1")

	old := reported("v1", "v1alpha1")
	old.Spec.Conversion.Webhook.ConversionReviewVersions = []string{"v1beta1"}
	wantCheck(t, answerWith(t, old, onlyV1), "review-version", v1alpha1.CheckFailed, "apiextensions.k8s.io/v1 ConversionReview, asked in apiextensions.k8s.io/v1beta1")

	_, right := start(t, testbed.ConverterOptions{}, "v1", "v1beta1")
	wantCheck(t, check(t, options(t, right)), "review-v1beta1", v1alpha1.CheckOK, "v1beta1 as well")
}

func response(answer map[string]any) map[string]any {
	fields, _ := answer["response"].(map[string]any)
	return fields
}

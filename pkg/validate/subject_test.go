package validate_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// subject reads a case: crd.yaml, which is a live CRD if its status lists stored
// versions, and optionally observations.yaml and now, the time.
func subject(t *testing.T, dir string) *validate.Subject {
	t.Helper()
	var observations lifecycle.Observations
	if text := optional(t, filepath.Join(dir, "observations.yaml")); text != nil {
		if err := yaml.UnmarshalStrict(text, &observations); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Date(2026, time.November, 30, 0, 0, 0, 0, time.UTC)
	if text := optional(t, filepath.Join(dir, "now")); text != nil {
		var err error
		if now, err = time.Parse(time.RFC3339, strings.TrimSpace(string(text))); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return decoded(t, text, observations, now)
}

func optional(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return text
}

// decoded returns the subject for the YAML of a CRD.
func decoded(t *testing.T, text []byte, observations lifecycle.Observations, now time.Time) *validate.Subject {
	t.Helper()
	values, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal(values, &document); err != nil {
		t.Fatal(err)
	}
	one := crd.CRD{CustomResourceDefinition: &apiextensionsv1.CustomResourceDefinition{}}
	one.Origin.APIVersion, _ = document["apiVersion"].(string)
	if one.Origin.APIVersion == apiextensionsv1beta1.SchemeGroupVersion.String() {
		one.CustomResourceDefinition, one.Origin.Internal = fromV1beta1(t, values)
	} else if err := yaml.UnmarshalStrict(text, one.CustomResourceDefinition); err != nil {
		t.Fatal(err)
	}
	if !live(document) {
		// As pkg/source: a manifest's status was never true here.
		one.Origin.File, one.Origin.Line = "crd.yaml", 1
		one.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	} else {
		recorded(one.CustomResourceDefinition)
	}
	subject := validate.NewSubject(t.Context(), lifecycle.New(one, observations), now)
	if !subject.Live() {
		subject.Document = document
	}
	return subject
}

// live reports whether a document lists stored versions, as only a cluster can.
func live(document map[string]any) bool {
	status, ok := document["status"].(map[string]any)
	stored, list := status["storedVersions"].([]any)
	return ok && list && len(stored) > 0
}

// fromV1beta1 decodes a manifest of the removed API, with its defaults.
func fromV1beta1(t *testing.T, values []byte) (*apiextensionsv1.CustomResourceDefinition, *apiextensions.CustomResourceDefinition) {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	object, err := runtime.Decode(serializer.NewCodecFactory(scheme).UniversalDecoder(), values)
	if err != nil {
		t.Fatal(err)
	}
	internal, ok := object.(*apiextensions.CustomResourceDefinition)
	if !ok {
		t.Fatalf("decoded a %T", object)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := scheme.Convert(internal.DeepCopy(), definition, nil); err != nil {
		t.Fatal(err)
	}
	return definition, internal
}

// recorded gives a live CRD without managedFields those that the server records with its
// own first write: without any, nothing is known of who wrote the status.
func recorded(c *apiextensionsv1.CustomResourceDefinition) {
	if len(c.ManagedFields) == 0 {
		c.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "kube-apiserver", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status",
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:acceptedNames":{}}}`),
		}}
	}
}

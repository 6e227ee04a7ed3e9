package preflight_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/preflight"
	"github.com/crdver/kubectl-crdver/pkg/printers"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// The files of a case. live.yaml is a CRD of a cluster, with its status; old.yaml
// a manifest to compare with, as --against has it; without either, new.yaml is
// created.
const (
	liveFile         = "live.yaml"
	oldFile          = "old.yaml"
	newFile          = "new.yaml"
	usersFile        = "users.yaml"
	objectsFile      = "objects.yaml"
	admissionFile    = "admission.yaml"
	observationsFile = "observations.yaml"
)

// now is the time of all cases.
func now() time.Time { return time.Date(2026, time.November, 30, 0, 0, 0, 0, time.UTC) }

// input reads a case.
func input(t *testing.T, dir string) preflight.Input {
	t.Helper()
	in := preflight.Input{
		New:            manifest(t, read(t, dir, newFile), newFile),
		Rules:          validate.Rules(),
		PreflightRules: preflight.Rules(),
	}
	if text := optional(t, dir, oldFile); text != nil {
		in.Old = manifest(t, text, oldFile)
	}
	if text := optional(t, dir, liveFile); text != nil {
		var observations lifecycle.Observations
		decode(t, optional(t, dir, observationsFile), &observations)
		in.Old = live(t, text, observations)
	}
	decode(t, optional(t, dir, usersFile), &in.Users)
	if text := optional(t, dir, admissionFile); text != nil {
		in.Admission = &preflight.Admission{}
		decode(t, text, in.Admission)
	}
	if text := optional(t, dir, objectsFile); text != nil {
		in.Objects = evidence(t, text, in)
	}
	return in
}

// objectsOf is what objects.yaml has: the objects that were read, and how the
// reading ended.
type objectsOf struct {
	Objects []map[string]any
	Total   *int64
	Partial bool
	Error   string
}

// evidence holds the objects of a case against the new schemas, as pkg/observe does.
func evidence(t *testing.T, text []byte, in preflight.Input) *preflight.Evidence {
	t.Helper()
	var of objectsOf
	decode(t, text, &of)
	check, err := preflight.NewCheck(in.Old.State, in.New.CRD)
	if err != nil {
		t.Fatal(err)
	}
	if check == nil {
		return nil
	}
	for _, object := range of.Objects {
		check.Add(t.Context(), object)
	}
	return check.Result(of.Total, !of.Partial && of.Error == "", of.Error)
}

// manifest returns a CRD of a file, as pkg/source reads it: its status was never
// true here.
func manifest(t *testing.T, text []byte, file string) *validate.Subject {
	t.Helper()
	one := crd.CRD{CustomResourceDefinition: &apiextensionsv1.CustomResourceDefinition{}}
	decode(t, text, one.CustomResourceDefinition)
	one.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	one.Origin = crd.Origin{File: file, Line: 1, APIVersion: one.APIVersion}
	subject := validate.NewSubject(t.Context(), lifecycle.New(one, lifecycle.Observations{}), now())
	values, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(values, &subject.Document); err != nil {
		t.Fatal(err)
	}
	return subject
}

// live returns a CRD of a cluster.
func live(t *testing.T, text []byte, observations lifecycle.Observations) *validate.Subject {
	t.Helper()
	one := crd.CRD{CustomResourceDefinition: &apiextensionsv1.CustomResourceDefinition{}}
	decode(t, text, one.CustomResourceDefinition)
	one.Origin.APIVersion = one.APIVersion
	recorded(one.CustomResourceDefinition)
	return validate.NewSubject(t.Context(), lifecycle.New(one, observations), now())
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, file string) []byte {
	t.Helper()
	text := optional(t, dir, file)
	if text == nil {
		t.Fatalf("%s has no %s", dir, file)
	}
	return text
}

func optional(t *testing.T, dir, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return text
}

// text returns an answer as people read it.
func text(t *testing.T, item v1alpha1.Preflight) string {
	t.Helper()
	report := &v1alpha1.PreflightReport{Items: []v1alpha1.Preflight{item}}
	report.Summary.CRDs = 1
	for _, f := range item.Findings {
		switch {
		case f.Suppressed != nil:
			report.Summary.Suppressed++
		case f.Severity == v1alpha1.SeverityError:
			report.Summary.Errors++
		case f.Severity == v1alpha1.SeverityWarning:
			report.Summary.Warnings++
		default:
			report.Summary.Infos++
		}
	}
	var out strings.Builder
	if err := printers.WritePreflight(&out, report, nil, false); err != nil {
		t.Fatal(err)
	}
	return out.String()
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

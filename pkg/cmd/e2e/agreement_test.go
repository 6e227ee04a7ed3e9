package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	cliresource "k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/preflight"
	"github.com/crdver/kubectl-crdver/pkg/source"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// corpus returns the manifests that the server and the rules are compared on:
// every case of the rules, the CRDs of this repository, and real ones where they
// are next to it.
func corpus(t *testing.T) []string {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	var files []string
	for _, pattern := range []string{
		filepath.Join(root, "testdata", "validate", "*", "*", "crd.yaml"),
		filepath.Join(root, "testdata", "crds", "*", "*.yaml"),
		filepath.Join(root, "..", "shared", "crds", "*.yaml"),
		filepath.Join(root, "..", "shared", "cases", "*.yaml"),
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

// manifests loads the CRDs of a file; what is not a CRD, and what cannot be
// decoded, is somebody else's matter.
func manifests(t *testing.T, file string) []crd.CRD {
	t.Helper()
	var found []crd.CRD
	files := source.Files{FilenameOptions: cliresource.FilenameOptions{Filenames: []string{file}}}
	_, err := files.Load(t.Context(), func(one crd.CRD) error {
		found = append(found, one)
		return nil
	})
	if err != nil {
		return nil
	}
	return found
}

func serverCRDs(t *testing.T, b *bed) dynamic.ResourceInterface {
	t.Helper()
	return b.objects(t).Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
}

// asWritten returns a manifest as it is sent to the server.
func asWritten(t *testing.T, one crd.CRD) *unstructured.Unstructured {
	t.Helper()
	values, err := one.Origin.Values()
	if err != nil {
		t.Fatal(err)
	}
	if values == nil {
		text, err := json.Marshal(one.CustomResourceDefinition)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &values); err != nil {
			t.Fatal(err)
		}
	}
	object := &unstructured.Unstructured{Object: values}
	object.SetAPIVersion("apiextensions.k8s.io/v1")
	object.SetKind("CustomResourceDefinition")
	return object
}

// causes returns the fields that a server refused.
func causes(t *testing.T, err error) []string {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		t.Errorf("not an answer of the server: %v", err)
		return nil
	}
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		if cause.Field != "spec.version" { // It repeats that of the first version's name.
			fields = append(fields, cause.Field)
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

func refusedFields(refusals []validate.Refusal) []string {
	var fields []string
	for _, refusal := range refusals {
		fields = append(fields, refusal.Field)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

func subjectOf(ctx context.Context, one crd.CRD) *validate.Subject {
	return validate.NewSubject(ctx, lifecycle.New(one, lifecycle.Observations{}), time.Now())
}

// TestServerRefusesTheSame sends every manifest of the corpus to a real server,
// as a dry run: what the rules call a refusal is refused, for the same fields, and
// nothing else is.
func TestServerRefusesTheSame(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	client := serverCRDs(t, b)
	compared, refusedOnes := 0, 0
	for _, file := range corpus(t) {
		for _, one := range manifests(t, file) {
			if one.Origin.APIVersion != apiextensionsv1.SchemeGroupVersion.String() {
				continue // The server has no such API: the rule removed-crd-api.
			}
			compared++
			refusals := subjectOf(t.Context(), one).Refusals()
			_, err := client.Create(t.Context(), asWritten(t, one), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			switch {
			case err == nil && len(refusals) == 0:
			case err == nil:
				t.Errorf("%s: the server takes it, we say %v", file, refusals)
			case len(refusals) == 0:
				t.Errorf("%s: we take it, the server says %v", file, err)
			default:
				refusedOnes++
				if server, ours := causes(t, err), refusedFields(refusals); !slices.Equal(server, ours) {
					t.Errorf("%s: the server refuses %v, we %v", file, server, ours)
				}
			}
		}
	}
	t.Logf("%d manifests, of which the server refuses %d", compared, refusedOnes)
	if compared < 50 || refusedOnes < 10 {
		t.Errorf("only %d manifests, of which the server refuses %d: too few to prove anything", compared, refusedOnes)
	}
}

// TestServerRefusesTheSameUpdates replaces CRDs that are there by each version of
// themselves that a change can make, on the server as a dry run and by preflight.
func TestServerRefusesTheSameUpdates(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	client := serverCRDs(t, b)
	changes := map[string]func(*apiextensionsv1.CustomResourceDefinition){
		"unchanged":   func(*apiextensionsv1.CustomResourceDefinition) {},
		"scope":       func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Scope = apiextensionsv1.ClusterScoped },
		"kind":        func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Names.Kind = "Other" },
		"short names": func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Names.ShortNames = []string{"zz"} },
		"no stored": func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Spec.Versions = c.Spec.Versions[1:]
			c.Spec.Versions[0].Storage = true
		},
		"other storage": func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Spec.Versions[0].Storage, c.Spec.Versions[1].Storage = false, true
		},
		"no storage":  func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[0].Storage = false },
		"two storage": func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[1].Storage = true },
		"not served":  func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[1].Served = false },
		"none served": func(c *apiextensionsv1.CustomResourceDefinition) {
			for i := range c.Spec.Versions {
				c.Spec.Versions[i].Served = false
			}
		},
		"no schema": func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[1].Schema = nil },
		"preserve":  func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.PreserveUnknownFields = true },
		"webhook without config": func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
		},
		"bad caBundle": func(c *apiextensionsv1.CustomResourceDefinition) {
			address := "https://example.com/convert"
			c.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &address, CABundle: []byte("nonsense")},
					ConversionReviewVersions: []string{"v1"},
				},
			}
		},
		"warning without deprecated": func(c *apiextensionsv1.CustomResourceDefinition) {
			text := "do not"
			c.Spec.Versions[1].DeprecationWarning = &text
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			group := strings.ToLower(strings.ReplaceAll(name, " ", "-")) + ".agreement.example.com"
			crdName := b.createCRD(t, crontabs(group, "v1beta1", "v1"))
			live := b.crd(t, crdName)
			next := live.DeepCopy()
			change(next)
			next.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
			_, err := client.Update(t.Context(), asWritten(t, crd.CRD{CustomResourceDefinition: next}), metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			next.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
			verdict := preflight.Compare(preflight.Input{
				New:            subjectOf(t.Context(), crd.CRD{CustomResourceDefinition: next, Origin: crd.Origin{File: "new.yaml"}}),
				Old:            subjectOf(t.Context(), crd.CRD{CustomResourceDefinition: live}),
				Rules:          validate.Rules(),
				PreflightRules: preflight.Rules(),
			})
			refused := slices.ContainsFunc(verdict.Findings, func(f v1alpha1.Finding) bool {
				return slices.Contains([]string{"update-refused", "stored-version-removed", "manifest-older-than-cluster"}, f.Rule)
			})
			if refused != (err != nil) {
				t.Errorf("the server says %v, we say %s: %+v", err, verdict.Verdict, verdict.Findings)
			}
			if err != nil && !refused {
				t.Logf("fields: %v", causes(t, err))
			}
		})
	}
}

// TestCorpusIsThere fails if the corpus lost the cases of the rules.
func TestCorpusIsThere(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(filepath.Join("..", "..", "..", "testdata", "validate"))
	if err != nil || len(entries) < 30 {
		t.Errorf("%d rules have cases: %v", len(entries), err)
	}
}

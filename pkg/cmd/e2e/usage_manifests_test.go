package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// repository is a folder with manifests of two objects at v1beta1, of which one has
// a field that v1 lacks, and, if there is one, with a CRD.
func repository(t *testing.T, group string, c *apiextensionsv1.CustomResourceDefinition) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"fits.yaml":  "apiVersion: " + group + "/v1beta1 # kept\nkind: CronTab\nmetadata: {name: fits}\nspec: {replicas: 1}\n",
		"loses.yaml": "apiVersion: " + group + "/v1beta1\nkind: CronTab\nmetadata: {name: loses}\nspec: {image: a}\n",
	}
	if c != nil {
		manifest, err := yaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		files["crds/crd.yaml"] = string(manifest)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// withoutImage is a CRD whose v1 lacks a field of v1beta1.
func withoutImage(group string) *apiextensionsv1.CustomResourceDefinition {
	c := crontabs(group, "v1", "v1beta1")
	delete(c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "image")
	return c
}

// TestUsageManifests looks into files with the CRD of the cluster, which comes before
// one among the files, and with that one where the cluster has none.
func TestUsageManifests(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "files.example.com"
	name := b.createCRD(t, withoutImage(group))
	b.createObjects(t, group, "v1beta1", 2, "a")
	// The CRD among the files takes the field: it is not the one that counts.
	dir := repository(t, group, crontabs(group, "v1", "v1beta1"))
	item := b.usage(t, 2, "v1beta1", name, "-f", dir)[0]
	wantUsage(t, item, v1alpha1.UsageInUse, v1alpha1.UsageManagedFields, "manager e2e.test write 2 objects use")
	wantUsage(t, item, v1alpha1.UsageInUse, v1alpha1.UsageManifest,
		"file "+dir+"/fits.yaml:1:1 names 1 places reference", "file "+dir+"/loses.yaml:1:1 names 1 places reference")

	before := b.revisions(t)
	got := b.must(t, 2, "usage", "v1beta1", name, "-f", dir, "--fix")
	contains(t, got.stderr, "loses.yaml:1:1: not rewritten: v1 does not have spec.image, which would be lost", "rewrote 1 apiVersion in 1 file; 1 place left")
	b.wantUnwritten(t, before)
	for file, want := range map[string]string{"fits.yaml": "apiVersion: " + group + "/v1 # kept\n", "loses.yaml": "apiVersion: " + group + "/v1beta1\n"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), want) {
			t.Errorf("%s: %s", file, text)
		}
	}
	// A webhook knows how to convert, and the cluster says that there is one.
	b.writeCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
		url := "https://127.0.0.1:1/convert"
		c.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &url}, ConversionReviewVersions: []string{"v1"},
		}}
	})
	contains(t, b.must(t, 3, "usage", "v1beta1", name, "-f", dir, "--fix").stderr, "converts with a webhook")

	// The cluster does not have this one.
	const other = "elsewhere.example.com"
	dir = repository(t, other, withoutImage(other))
	got = b.must(t, 2, "usage", "v1beta1", "crontabs."+other, "-f", dir)
	contains(t, got.stderr, "The CRD crontabs."+other+" is that of "+dir+"/crds/crd.yaml")
	contains(t, got.stdout, dir+"/fits.yaml:1:1", "crontabs."+other+" v1beta1: in use",
		`managed-fields: no cluster is asked about this and all else: no CustomResourceDefinition is named "crontabs.`+other)
	contains(t, b.must(t, 2, "usage", "v1beta1", "crontabs."+other, "-f", dir, "--fix", "--dry-run").stderr, "would rewrite 1 apiVersion in 1 file; 1 place left")
	contains(t, b.must(t, 1, "usage", "v1beta1", "crontabs.nowhere.example.com", "-f", dir).stderr, "among the files of --filename there is none either")
	// A cluster that is down may have it: that is an error, and no shorter answer.
	down := execute(t.Context(), neverRead{t}, "usage", "v1beta1", "crontabs."+other, "-f", dir, "--kubeconfig", kubeconfigs(t, map[string]*rest.Config{"testbed": nowhere(t, false)}))
	if down.code != 1 || strings.Contains(down.stdout, "fits.yaml") {
		t.Error(down)
	}
}

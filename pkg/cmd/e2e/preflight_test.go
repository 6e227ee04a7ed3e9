package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// manifest writes a live CRD, changed, as somebody has it in Git.
func (b *bed) manifest(t *testing.T, name string, change func(*apiextensionsv1.CustomResourceDefinition)) string {
	t.Helper()
	c := b.crd(t, name)
	c.ObjectMeta = metav1.ObjectMeta{Name: c.Name}
	c.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	c.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	change(c)
	values, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		t.Fatal(err)
	}
	delete(values, "status")
	text, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// preflight runs preflight on a manifest, which has to end with a code, and
// returns its only item.
func (b *bed) preflight(t *testing.T, code int, file string, args ...string) v1alpha1.Preflight {
	t.Helper()
	before := b.revisions(t)
	got := b.must(t, code, append([]string{"preflight", "-f", file, "-o", "json"}, args...)...)
	b.wantUnwritten(t, before)
	var report v1alpha1.PreflightReport
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || len(report.Items) != 1 {
		t.Fatalf("%v: %s", err, got)
	}
	return report.Items[0]
}

func without(version string) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Spec.Versions = slices.DeleteFunc(c.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version })
		c.Spec.Versions[0].Storage = true
	}
}

// finding returns the finding of a rule.
func finding(t *testing.T, item v1alpha1.Preflight, rule string) v1alpha1.Finding {
	t.Helper()
	for _, f := range item.Findings {
		if f.Rule == rule {
			return f
		}
	}
	t.Fatalf("no finding of %s: %+v", rule, item)
	return v1alpha1.Finding{}
}

// TestStepsOfPreflightClearTheWay runs what preflight says has to be done first,
// and then has the server take the manifest.
func TestStepsOfPreflightClearTheWay(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	for name, prepare := range map[string]func(crdName string){
		"the storage version goes": func(string) {},
		"a stored version goes": func(crdName string) {
			b.updateCRD(t, crdName, func(c *apiextensionsv1.CustomResourceDefinition) {
				c.Spec.Versions[0].Storage, c.Spec.Versions[1].Storage = false, true
			})
		},
		"an entry that is no version": func(crdName string) {
			b.updateCRD(t, crdName, func(c *apiextensionsv1.CustomResourceDefinition) {
				c.Spec.Versions[0].Storage, c.Spec.Versions[1].Storage = false, true
			})
			b.patchStored(t, crdName, "v1alpha1", "v1beta1", "v1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			group := strings.ReplaceAll(name, " ", "-") + ".example.com"
			crdName := b.scene(t, group, 12)
			prepare(crdName)
			file := b.manifest(t, crdName, without("v1beta1"))
			item := b.preflight(t, 2, file)
			if item.Verdict != v1alpha1.VerdictOKAfter || len(item.Steps) == 0 {
				t.Fatalf("%s: %q\n%+v", item.Verdict, item.Steps, item.Findings)
			}
			finding(t, item, "stored-version-removed")
			for _, step := range item.Steps {
				words := strings.Fields(strings.TrimPrefix(step, "kubectl crdver "))
				b.must(t, 0, append(words, "--yes")...)
			}
			item = b.preflight(t, 0, file)
			if item.Verdict != v1alpha1.VerdictOK || len(item.Findings) != 0 {
				t.Errorf("%s: %+v", item.Verdict, item.Findings)
			}
			b.wantStored(t, group, map[string]int{"v1": 12})
		})
	}
}

// TestPreflightLooksAtObjects holds live objects against the new schemas: what
// is counted is what a server refuses and prunes.
func TestPreflightLooksAtObjects(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	group := "objects.example.com"
	crdName := b.scene(t, group, 30)
	narrow := b.manifest(t, crdName, func(c *apiextensionsv1.CustomResourceDefinition) {
		for i := range c.Spec.Versions {
			spec := c.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["spec"]
			limit := 9.0
			spec.Properties["replicas"] = apiextensionsv1.JSONSchemaProps{Type: "integer", Maximum: &limit}
			delete(spec.Properties, "image")
			c.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["spec"] = spec
		}
	})
	item := b.preflight(t, 2, narrow)
	o := item.Objects
	if item.Verdict != v1alpha1.VerdictBreaks || o == nil || !o.Complete || o.Checked != 30 || o.Total == nil || *o.Total != 30 {
		t.Fatalf("%+v", item)
	}
	// The objects have image, and replicas from 0 to 29 or less.
	var invalid int64
	all, err := b.objects(t).Resource(resource(group, "v1beta1")).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range all.Items {
		spec, _ := object.Object["spec"].(map[string]any)
		if replicas, _ := spec["replicas"].(int64); replicas > 9 {
			invalid++
		}
	}
	if o.Invalid != invalid || o.Pruned != 30 || invalid == 0 {
		t.Errorf("invalid %d (want %d), pruned %d (want 30)", o.Invalid, invalid, o.Pruned)
	}
	if f := finding(t, item, "objects-invalid"); !strings.Contains(f.Message, "spec.replicas") {
		t.Error(f.Message)
	}
	if f := finding(t, item, "objects-lose-fields"); !strings.Contains(f.Message, "spec.image (30)") {
		t.Error(f.Message)
	}
	if item = b.preflight(t, 2, narrow, "--sample", "7"); item.Objects.Checked != 7 || item.Objects.Complete || item.Objects.Pruned != 7 {
		t.Errorf("a sample of 7: %+v", item.Objects)
	}
	// A manifest that changes no schema that matters need not look at objects.
	same := b.manifest(t, crdName, func(*apiextensionsv1.CustomResourceDefinition) {})
	if item = b.preflight(t, 0, same); item.Objects != nil || item.Verdict != v1alpha1.VerdictOK {
		t.Errorf("%+v", item)
	}
	// The values are nowhere.
	got := b.must(t, 2, "preflight", "-f", narrow)
	if strings.Contains(got.stdout+got.stderr, "example.com/cron:v1") || strings.Contains(got.stdout, "* * * *") {
		t.Errorf("values are printed: %s", got)
	}
}

// TestPreflightNamesWhoLosesAVersion finds the managers of a version that goes.
func TestPreflightNamesWhoLosesAVersion(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	group := "users.example.com"
	crdName := b.scene(t, group, 8)
	b.must(t, 0, "promote", "v1", crdName, "--yes")
	file := b.manifest(t, crdName, func(c *apiextensionsv1.CustomResourceDefinition) {
		testbed.Version(c, "v1beta1").Served = false
	})
	item := b.preflight(t, 2, file)
	f := finding(t, item, "served-version-unserved")
	if item.Verdict != v1alpha1.VerdictBreaks || f.Severity != v1alpha1.SeverityError || !strings.Contains(f.Message, "managedFields of 8 objects name it") {
		t.Errorf("%s: %+v", item.Verdict, f)
	}
	// Removing it is fine after retire, which moves the managedFields.
	item = b.preflight(t, 2, b.manifest(t, crdName, without("v1beta1")))
	if item.Verdict != v1alpha1.VerdictOKAfter || !slices.Equal(item.Steps, []string{"kubectl crdver retire v1beta1 " + crdName}) {
		t.Errorf("%s: %q %+v", item.Verdict, item.Steps, item.Findings)
	}
	// After a change of the storage version the objects have to be migrated.
	item = b.preflight(t, 0, b.manifest(t, crdName, func(c *apiextensionsv1.CustomResourceDefinition) {
		for i := range c.Spec.Versions {
			c.Spec.Versions[i].Storage = c.Spec.Versions[i].Name == "v1beta1"
		}
	}))
	if finding(t, item, "storage-version-changed-back"); !slices.Equal(item.AfterSteps, []string{"kubectl crdver migrate " + crdName}) {
		t.Errorf("%+v", item)
	}
}

// TestPreflightOfANewCRD compares with nothing.
func TestPreflightOfANewCRD(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	crdName := b.scene(t, "there.example.com", 1)
	file := b.manifest(t, crdName, func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Name, c.Spec.Group = "crontabs.new.example.com", "new.example.com"
	})
	if item := b.preflight(t, 0, file); item.Change != "create" || item.Verdict != v1alpha1.VerdictOK {
		t.Errorf("%+v", item)
	}
	refused := b.manifest(t, crdName, func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Name, c.Spec.Group = "crontabs.new.example.com", "new.example.com"
		c.Spec.Versions[1].Storage = true
	})
	item := b.preflight(t, 2, refused)
	if item.Verdict != v1alpha1.VerdictRefused {
		t.Errorf("%+v", item)
	}
	finding(t, item, "single-storage-version")
}

// TestPreflightWithoutObjects says that they could not be read, and not that
// there are none (cases 21 and 71).
func TestPreflightWithoutObjects(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	group := "lost.example.com"
	crdName := b.scene(t, group, 3)
	// What case 21 reports: the list trimmed by hand, the version removed.
	b.updateCRD(t, crdName, func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Spec.Versions[0].Storage, c.Spec.Versions[1].Storage = false, true
	})
	b.patchStored(t, crdName, "v1")
	b.writeCRD(t, crdName, without("v1beta1"))
	file := b.manifest(t, crdName, func(c *apiextensionsv1.CustomResourceDefinition) {
		spec := c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		delete(spec.Properties, "image")
	})
	item := b.preflight(t, 0, file)
	if f := finding(t, item, "objects-unknown"); item.Verdict != v1alpha1.VerdictUnknown || !strings.Contains(f.Message, "v1beta1") {
		t.Errorf("%s: %s", item.Verdict, f.Message)
	}
	got := b.must(t, 2, "validate", crdName)
	if !strings.Contains(got.stdout, "[stored-version-missing]") || !strings.Contains(got.stdout, "kubectl crdver rescue "+crdName) {
		t.Error(got)
	}
}

// TestPreflightLooksAtUnservedVersionsInManagedFields has a version that is
// unserved and no longer stored removed by a manifest: managedFields still name
// it, and the server, which takes the manifest, then refuses every server-side
// apply (fact 5).
func TestPreflightLooksAtUnservedVersionsInManagedFields(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	group := "left.example.com"
	crdName := b.scene(t, group, 0)
	apply := func(version, image string) error {
		_, err := b.objects(t).Resource(resource(group, version)).Namespace("default").Apply(t.Context(), "applied", &unstructured.Unstructured{
			Object: map[string]any{
				"apiVersion": group + "/" + version, "kind": "CronTab", "metadata": map[string]any{"name": "applied"},
				"spec": map[string]any{"image": image},
			},
		}, metav1.ApplyOptions{FieldManager: version + "-applier", Force: true})
		return err
	}
	if err := apply("v1beta1", "one"); err != nil {
		t.Fatal(err)
	}
	b.must(t, 0, "promote", "v1", crdName, "--yes")
	b.must(t, 0, "retire", "v1beta1", crdName, "--until", "unserve", "--allow-in-use", "--yes")
	removed := without("v1beta1")
	file := b.manifest(t, crdName, removed)
	for _, args := range [][]string{nil, {"--all"}} {
		item := b.preflight(t, 2, file, args...)
		f := finding(t, item, "managed-fields-name-version")
		if item.Verdict != v1alpha1.VerdictOKAfter || !slices.Equal(item.Steps, []string{"kubectl crdver retire v1beta1 " + crdName}) ||
			!strings.Contains(f.Message, "managedFields of 1 object name it: v1beta1-applier (1") {
			t.Errorf("%q: %s: %q %+v", args, item.Verdict, item.Steps, item.Findings)
		}
	}
	b.must(t, 0, "retire", "v1beta1", crdName, "--yes")
	if item := b.preflight(t, 0, file); item.Verdict != v1alpha1.VerdictOK || len(item.Findings) != 0 {
		t.Errorf("after the step: %s: %+v", item.Verdict, item.Findings)
	}
	if err := apply("v1", "two"); err != nil {
		t.Errorf("after the step: %v", err)
	}
}

// TestPreflightIsNotSureAfterAnEditByHand has a manifest remove an unserved version
// which somebody took out of status.storedVersions: whether objects are stored at
// it is not known, and is after what the finding names.
func TestPreflightIsNotSureAfterAnEditByHand(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	t.Run("and it is recorded", func(t *testing.T) {
		b.trimmedByHand(t, "byhand.example.com", `was last written by "by-hand"`, func(string) {})
	})
	t.Run("and no record is kept", func(t *testing.T) {
		b.trimmedByHand(t, "unrecorded.example.com", "nothing tells who wrote status.storedVersions", func(crdName string) {
			// As people do to get rid of long lists.
			b.updateCRD(t, crdName, func(c *apiextensionsv1.CustomResourceDefinition) { c.ManagedFields = []metav1.ManagedFieldsEntry{{}} })
		})
	})
}

// trimmedByHand prepares a CRD, trims its status.storedVersions, asks preflight,
// and does what it says.
func (b *bed) trimmedByHand(t *testing.T, group, why string, prepare func(crdName string)) {
	t.Helper()
	crdName := b.scene(t, group, 0)
	b.createObjects(t, group, "v1", 4)
	b.updateCRD(t, crdName, func(c *apiextensionsv1.CustomResourceDefinition) {
		for i := range c.Spec.Versions {
			c.Spec.Versions[i].Storage = c.Spec.Versions[i].Name == "v1"
			c.Spec.Versions[i].Served = c.Spec.Versions[i].Storage
		}
	})
	prepare(crdName)
	b.patchStored(t, crdName, "v1")
	b.wantStored(t, group, map[string]int{"v1beta1": 4})
	file := b.manifest(t, crdName, without("v1beta1"))
	item := b.preflight(t, 2, file)
	f := finding(t, item, "stored-version-removed")
	if item.Verdict != v1alpha1.VerdictUnknown || len(item.Steps) != 0 || f.Severity != v1alpha1.SeverityError || !strings.Contains(f.Message, why) {
		t.Errorf("%s: %q %+v", item.Verdict, item.Steps, item.Findings)
	}
	for _, evidence := range []string{
		"kubectl crdver stored " + crdName + " --at v1beta1 --etcd-snapshot FILE", "kubectl crdver retire v1beta1 " + crdName, "kubectl crdver migrate " + crdName + " --force",
	} {
		if !strings.Contains(f.Fix, evidence) {
			t.Errorf("the fix does not name %q: %s", evidence, f.Fix)
		}
	}
	if report := b.stored(t, 2, crdName, "--etcd-snapshot", b.snapshot(t)); len(report.Items) != 1 {
		t.Errorf("%+v", report)
	}
	b.must(t, 0, "retire", "v1beta1", crdName, "--yes")
	b.wantStored(t, group, map[string]int{"v1": 4})
	if item = b.preflight(t, 0, file); item.Verdict != v1alpha1.VerdictOK || len(item.Findings) != 0 {
		t.Errorf("%s: %+v", item.Verdict, item.Findings)
	}
}

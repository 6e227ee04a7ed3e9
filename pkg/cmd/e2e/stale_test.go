package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func addLabel(c *apiextensionsv1.CustomResourceDefinition) {
	metav1.SetMetaDataLabel(&c.ObjectMeta, "team", "storage")
}

func describe(c *apiextensionsv1.CustomResourceDefinition) {
	for _, v := range c.Spec.Versions {
		v.Schema.OpenAPIV3Schema.Description = "changed by somebody else"
	}
}

func TestSavedPlanIsStale(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	other := start(t, testbed.InProcessOptions{})
	for _, test := range []struct {
		name   string
		change func(t *testing.T, crd, file string)
		code   int
		says   string
	}{
		{"nothing changed", func(*testing.T, string, string) {}, 0, "promoted to v1"},
		{"a label", func(t *testing.T, crd, _ string) { b.updateCRD(t, crd, addLabel) }, 0, "promoted to v1"},
		{"the schema", func(t *testing.T, crd, _ string) { b.updateCRD(t, crd, describe) }, 3, "is stale: the CRD was changed (generation 1 -> 2)"},
		{"the storage version", func(t *testing.T, crd, _ string) {
			b.updateCRD(t, crd, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1") })
		}, 3, "is stale: the CRD was changed"},
		{"the stored versions", func(t *testing.T, crd, _ string) { b.patchStored(t, crd, "v1beta1", "v1") }, 3, "is stale: status.storedVersions was changed ([v1beta1] -> [v1beta1, v1])"},
		{"deleted", func(t *testing.T, crd, _ string) { b.deleteCRD(t, crd) }, 3, "is stale: the CRD"},
		{"created anew", func(t *testing.T, crd, _ string) {
			c := b.crd(t, crd)
			b.deleteCRD(t, crd)
			b.createCRD(t, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Spec: c.Spec})
		}, 3, "is stale: the CRD was deleted and created again"},
		{"the patch in the file", edit(`path: /spec/versions/0/storage`, `path: /spec/versions/0/served`), 3, "is not the one that would be made now"},
		{"a step more in the file", edit("action: set-storage", "action: remove"), 3, "is not the one that would be made now"},
		{"the version in the file", edit("\n  version: v1\n", "\n  version: v1beta1\n"), 3, "is not the one that would be made now"},
		{"a generation in the file", edit("generation: 1", "generation: 7"), 3, "is stale"},
		{"a field that there is not", edit("\nkind: Plan\n", "\nkind: Plan\nforce: true\n"), 1, `unknown field "force"`},
		{"another kind", edit("\nkind: Plan\n", "\nkind: Report\n"), 1, `kind is "Report", not "Plan"`},
		{"another apiVersion", edit("apiVersion: crdver.dev/v1alpha1", "apiVersion: v1"), 1, `apiVersion is "v1"`},
		{"no YAML", func(t *testing.T, _, file string) { overwrite(t, file, "{") }, 1, "reading the plan"},
		{"an empty file", func(t *testing.T, _, file string) { overwrite(t, file, "") }, 1, "reading the plan"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			group := strings.ReplaceAll(test.name, " ", "-") + ".example.com"
			name := b.scene(t, strings.ToLower(group), 3)
			file := filepath.Join(t.TempDir(), "plan.yaml")
			before := b.crd(t, name)
			got := b.must(t, 0, "promote", "v1", name, "--plan-out", file)
			contains(t, got.stderr, "kubectl crdver apply -f "+file)
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the file: %v, %v", info, err)
			}
			if after := b.crd(t, name); !reflect.DeepEqual(before, after) {
				t.Error("saving the plan changed the CRD")
			}
			test.change(t, name, file)
			var middle *apiextensionsv1.CustomResourceDefinition
			if test.name != "deleted" {
				middle = b.crd(t, name)
			}
			if test.code == 3 {
				b.wantStaleDocuments(t, file, name, test.says)
			}
			got = b.must(t, test.code, "apply", "-f", file, "--yes")
			contains(t, got.stdout+got.stderr, test.says)
			if test.code != 0 && middle != nil && !reflect.DeepEqual(middle, b.crd(t, name)) {
				t.Error("the refused plan changed the CRD")
			}
			if test.code != 0 && got.stdout != "" {
				t.Errorf("standard output: %s", got.stdout)
			}
		})
	}
	t.Run("another cluster", func(t *testing.T) {
		t.Parallel()
		name := b.scene(t, "elsewhere.example.com", 1)
		other.scene(t, "elsewhere.example.com", 1)
		file := filepath.Join(t.TempDir(), "plan.yaml")
		b.must(t, 0, "promote", "v1", name, "--plan-out", file)
		contains(t, other.must(t, 3, "apply", "-f", file, "--yes").stderr, "another cluster")
	})
}

// wantStaleDocuments has a program apply a stale plan: it gets one document that
// says why nothing was done, and the blocked plan on a dry run.
func (b *bed) wantStaleDocuments(t *testing.T, file, name, says string) {
	t.Helper()
	for _, format := range []string{"json", "yaml"} {
		var report v1alpha1.Report
		decode(t, format, b.must(t, 3, "apply", "-f", file, "--yes", "-o", format).stdout, &report)
		if report.Kind != "Report" || report.Outcome != v1alpha1.OutcomeRefused || !strings.Contains(report.Message, says) || len(report.Steps) == 0 ||
			report.Intent.Verb != v1alpha1.VerbPromote {
			t.Errorf("report: %+v", report)
		}
		for _, step := range report.Steps {
			if step.Outcome != v1alpha1.OutcomeNotRun {
				t.Errorf("%s: %s", step.ID, step.Outcome)
			}
		}
		var plan v1alpha1.Plan
		decode(t, format, b.must(t, 3, "apply", "-f", file, "--dry-run=server", "-o", format).stdout, &plan)
		last := v1alpha1.Blocker{}
		if n := len(plan.Blockers); n > 0 {
			last = plan.Blockers[n-1]
		}
		if plan.Kind != "Plan" || plan.Applyable || last.ID != "stale" || !strings.Contains(last.Message, says) ||
			!strings.HasPrefix(last.Resolve, "kubectl crdver promote v1") || !strings.Contains(last.Resolve, " "+name) {
			t.Errorf("plan: %+v", plan)
		}
	}
}

// TestStalePlanOfSeveral has one stale plan among three: none is carried out, and
// the list says which, and that the others were not for that reason.
func TestStalePlanOfSeveral(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	var names []string
	for _, group := range []string{"first-of.example.com", "second-of.example.com", "third-of.example.com"} {
		names = append(names, b.scene(t, group, 2))
	}
	file := filepath.Join(t.TempDir(), "plans.yaml")
	b.must(t, 0, append(append([]string{"promote", "v1"}, names...), "--plan-out", file)...)
	b.updateCRD(t, names[1], describe)
	before := b.revisions(t)
	var reports v1alpha1.ReportList
	decode(t, "json", b.must(t, 3, "apply", "-f", file, "--yes", "-o", "json").stdout, &reports)
	if reports.Kind != "ReportList" || len(reports.Items) != 3 {
		t.Fatalf("reports: %+v", reports)
	}
	for i, report := range reports.Items {
		if report.Outcome != v1alpha1.OutcomeRefused || !strings.Contains(report.Message, "the plan for "+names[1]+" is stale") || report.Target.CRD.Name != names[i] {
			t.Errorf("%s: %s: %s", report.Target.CRD.Name, report.Outcome, report.Message)
		}
	}
	var plans v1alpha1.PlanList
	decode(t, "json", b.must(t, 3, "apply", "-f", file, "--dry-run=client", "-o", "json").stdout, &plans)
	if len(plans.Items) != 3 || !plans.Items[0].Applyable || plans.Items[1].Applyable || !plans.Items[2].Applyable {
		t.Errorf("plans: %+v", plans)
	}
	b.wantUnwritten(t, before)
	// What is no refusal prints no document, as with every other command.
	if got := b.must(t, 1, "apply", "-f", filepath.Join(t.TempDir(), "none.yaml"), "--yes", "-o", "json"); got.stdout != "" {
		t.Errorf("standard output: %s", got.stdout)
	}
}

// edit returns a change of the saved plan.
func edit(old, replacement string) func(*testing.T, string, string) {
	return func(t *testing.T, _, file string) {
		t.Helper()
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), old) {
			t.Fatalf("%q is not in the plan:\n%s", old, data)
		}
		overwrite(t, file, strings.Replace(string(data), old, replacement, 1))
	}
}

func overwrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (b *bed) deleteCRD(t *testing.T, name string) {
	t.Helper()
	crds := b.crds(t).ApiextensionsV1().CustomResourceDefinitions()
	if err := crds.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		_, err := crds.Get(t.Context(), name, metav1.GetOptions{})
		return err != nil
	})
}

// TestSavedPlanOfEachCommand saves and carries out plans whose patches hold all
// that may look different after a way through YAML.
func TestSavedPlanOfEachCommand(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.scene(t, "saved.example.com", 3)
	manifest := crontabs("saved.example.com", "v1beta1", "v2")
	testbed.Version(manifest, "v2").Schema.OpenAPIV3Schema.Description = `<a> & "b": 1.0`
	text, err := yaml.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"deprecate", "v1beta1", name, "--message", `saved.example.com/v1beta1 CronTab is <old> & "deprecated": yes`},
		{"deprecate", "v1beta1", name, "--undo"},
		{"promote", "v1alpha9", name, "--from", "v1beta1", "--until", "serve"},
		{"restore", "v2", name, "-f", writeFile(t, "crd.yaml", text)},
		{"promote", "v1", name, "--deprecate-older"},
		{"retire", "v1beta1", name},
		{"migrate", name, "--force"},
	} {
		file := filepath.Join(t.TempDir(), "plan.yaml")
		b.must(t, 0, append(args, "--plan-out", file)...)
		got := b.must(t, 0, "apply", "-f", file, "--yes")
		if strings.Contains(got.stdout, "unchanged") {
			t.Errorf("%q: %s", args, got)
		}
	}
}

// TestCRDChangesMeanwhile changes the CRD between the plan and the patch, and
// in the midst of a migration.
func TestCRDChangesMeanwhile(t *testing.T) {
	t.Parallel()
	var watch traffic
	b := start(t, testbed.InProcessOptions{Middleware: watch.wrap})
	for i, test := range []struct {
		name   string
		when   func(*http.Request) bool
		change func(t *testing.T, crd string)
		code   int
		says   string
		// untouched says that nothing but the other's change may be there then.
		untouched bool
	}{
		{"a label", patchesCRD, func(t *testing.T, crd string) { b.updateCRD(t, crd, addLabel) }, 0, "promoted to v1", false},
		{"a description", patchesCRD, func(t *testing.T, crd string) { b.updateCRD(t, crd, describe) }, 3, "run again to plan from here", true},
		{"another storage version", patchesCRD, func(t *testing.T, crd string) {
			b.updateCRD(t, crd, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1alpha1") })
		}, 3, "the plan would now be another", true},
		{"a version put first", patchesCRD, func(t *testing.T, crd string) {
			b.updateCRD(t, crd, func(c *apiextensionsv1.CustomResourceDefinition) {
				added := *c.Spec.Versions[1].DeepCopy()
				added.Name = "v2"
				c.Spec.Versions = append([]apiextensionsv1.CustomResourceDefinitionVersion{added}, c.Spec.Versions...)
			})
		}, 3, "the plan would now be another", true},
		{"the version unserved", patchesCRD, func(t *testing.T, crd string) {
			b.updateCRD(t, crd, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.Version(c, "v1").Served = false })
		}, 3, "the plan would now be another", true},
		{"created anew", patchesCRD, func(t *testing.T, crd string) {
			c := b.crd(t, crd)
			b.deleteCRD(t, crd)
			b.createCRD(t, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Spec: c.Spec})
		}, 3, "the CRD was deleted and created again", true},
		{"a label while objects are rewritten", patchesObject, func(t *testing.T, crd string) { b.updateCRD(t, crd, addLabel) }, 0, "promoted to v1", false},
		{"the schema while objects are rewritten", patchesObject, func(t *testing.T, crd string) { b.updateCRD(t, crd, describe) }, 3, "run again to plan from here", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			group := "meanwhile" + string(rune('a'+i)) + ".example.com"
			name := b.createCRD(t, crontabs(group, "v1beta1", "v1", "v1alpha1"))
			b.createObjects(t, group, "v1beta1", 30, "a")
			var once sync.Once
			var theirs *apiextensionsv1.CustomResourceDefinition
			watch.stepIn(func(r *http.Request) {
				if test.when(r) {
					once.Do(func() {
						test.change(t, name)
						theirs = b.crd(t, name)
					})
				}
			})
			defer watch.stepIn(nil)
			got := b.must(t, test.code, "promote", "v1", name, "--yes")
			contains(t, got.stdout+got.stderr, test.says)
			if theirs == nil {
				t.Fatal("nothing was changed meanwhile")
			}
			if strings.Contains(got.stderr, "patching CRD crontabs") && strings.Count(got.stderr, "patching") > 1 {
				t.Errorf("it repeats itself: %s", got.stderr)
			}
			ours := b.crd(t, name)
			if test.untouched && (!reflect.DeepEqual(theirs.Spec, ours.Spec) || !reflect.DeepEqual(theirs.Status, ours.Status) ||
				theirs.UID != ours.UID || len(ours.Annotations) > 0) {
				t.Error("the CRD was changed on top of somebody else's change")
			}
			if test.code == 0 {
				b.wantStored(t, group, map[string]int{"v1": 30})
				if ours.Labels["team"] != theirs.Labels["team"] {
					t.Error("somebody else's label is lost")
				}
				return
			}
			if test.untouched {
				return
			}
			if len(ours.Status.StoredVersions) != 2 {
				t.Errorf("trimmed to %q", ours.Status.StoredVersions)
			}
			watch.stepIn(nil)
			b.must(t, 0, "promote", "v1", name, "--yes")
			b.wantStored(t, group, map[string]int{"v1": 30})
			if ours := b.crd(t, name); len(ours.Status.StoredVersions) != 1 {
				t.Errorf("storedVersions %q after running again", ours.Status.StoredVersions)
			}
		})
	}
}

// TestHarmlessChangeBeforeDeprecate changes the schema between the plan and a
// patch that has nothing to do with it: the plan would be the same.
func TestHarmlessChangeBeforeDeprecate(t *testing.T) {
	t.Parallel()
	var watch traffic
	b := start(t, testbed.InProcessOptions{Middleware: watch.wrap})
	name := b.scene(t, "harmless.example.com", 1)
	var once sync.Once
	watch.stepIn(func(r *http.Request) {
		if patchesCRD(r) {
			once.Do(func() { b.updateCRD(t, name, describe) })
		}
	})
	got := b.must(t, 0, "deprecate", "v1beta1", name, "--yes")
	contains(t, got.stderr, "the steps that are left stay the same")
	v := testbed.Version(b.crd(t, name), "v1beta1")
	if !v.Deprecated || v.Schema.OpenAPIV3Schema.Description == "" {
		t.Error("one of the two changes is lost")
	}
}

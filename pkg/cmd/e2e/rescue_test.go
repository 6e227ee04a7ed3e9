package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// lose creates a CRD with objects at v1alpha1, v1alpha2 and v1, n of each, and
// then does what people do by hand: it trims the list and removes the two. What
// happens before that is told the name of the CRD.
func (b *bed) lose(t *testing.T, c *apiextensionsv1.CustomResourceDefinition, n int, before ...func(name string)) string {
	t.Helper()
	group := c.Spec.Group
	name := b.createCRD(t, c)
	for _, version := range []string{"v1", "v1beta1", "v1alpha1", "v1alpha2"} {
		if testbed.Version(c, version) == nil {
			continue
		}
		b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, version) })
		b.persists(t, group, version)
		for i := range n {
			namespace := "a"
			if c.Spec.Scope == apiextensionsv1.ClusterScoped {
				namespace = ""
			}
			object := newCronTab(group, version, namespace, fmt.Sprintf("%s-%d", version, i), i)
			if i == 0 {
				object.SetFinalizers([]string{"example.com/held"})
			}
			b.createOne(t, object)
		}
	}
	for _, do := range before {
		do(name)
	}
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1") })
	b.patchStored(t, name, "v1")
	b.writeCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{*testbed.Version(c, "v1")}
	})
	eventually(t, func() bool {
		_, err := b.objects(t).Resource(resource(group, "v1")).List(t.Context(), metav1.ListOptions{Limit: 500})
		return err != nil
	})
	return name
}

// persists waits until the server persists at a version.
func (b *bed) persists(t *testing.T, group, version string) {
	t.Helper()
	probe := newCronTab(group, version, "probe", "probe", 0)
	if c := b.crd(t, testbed.CronTabPlural+"."+group); c.Spec.Scope == apiextensionsv1.ClusterScoped {
		probe.SetNamespace("")
	}
	if err := testbed.WaitForStorageVersion(t.Context(), b.InProcess, resource(group, version), probe, version); err != nil {
		t.Fatal(err)
	}
}

func (b *bed) createOne(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	gvk := object.GroupVersionKind()
	objects := b.objects(t).Resource(resource(gvk.Group, gvk.Version))
	var err error
	if object.GetNamespace() == "" {
		_, err = objects.Create(t.Context(), object, metav1.CreateOptions{})
	} else {
		_, err = objects.Namespace(object.GetNamespace()).Create(t.Context(), object, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// contents returns what is stored, by key, without what a rewrite may change.
func (b *bed) contents(t *testing.T, group string) map[string]string {
	t.Helper()
	stored, err := testbed.Stored(t.Context(), b.Etcd(), group, testbed.CronTabPlural)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, one := range stored {
		var object map[string]any
		if err := one.Unmarshal(&object); err != nil {
			t.Fatal(err)
		}
		delete(object, "apiVersion")
		metadata, _ := object["metadata"].(map[string]any)
		delete(metadata, "managedFields")
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		all[one.Key] = string(text)
	}
	return all
}

// wantContents makes sure that no object was lost, made or altered.
func (b *bed) wantContents(t *testing.T, group string, before map[string]string) {
	t.Helper()
	after := b.contents(t, group)
	if maps.Equal(before, after) {
		return
	}
	for key := range before {
		if after[key] != before[key] {
			t.Errorf("%s was %s, is %s", key, before[key], after[key])
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d objects, there were %d", len(after), len(before))
	}
}

// TestRescue has objects at two versions that are gone (case 21).
func TestRescue(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, n = "lost.example.com", 3
	name := b.lose(t, crontabs(group, "v1", "v1alpha1", "v1alpha2"), n)
	contents, before := b.contents(t, group), b.revisions(t)

	contains(t, b.must(t, 0, "status", name).stdout, "kubectl crdver rescue "+name)
	contains(t, b.must(t, 3, "migrate", name, "--force", "--yes").stderr, "kubectl crdver rescue "+name)
	for _, dryRun := range []string{"client", "server"} {
		got := b.must(t, 0, "rescue", "--dry-run="+dryRun)
		contains(t, got.stdout, "add v1alpha1 to spec.versions again", "add v1alpha2 to", "one that keeps every field", "[v1] -> [v1, v1alpha2, v1alpha1]",
			"serve v1alpha1 for the rehearsal", "remove v1alpha1", "would take")
	}
	contains(t, b.must(t, 3, "rescue", name).stderr, "--yes")
	b.wantUnwritten(t, before)

	got := b.must(t, 0, "rescue", name, "--yes", "-o", "json")
	var report v1alpha1.Report
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || report.Outcome != v1alpha1.OutcomeDone {
		t.Errorf("report: %v, %s", err, got.stdout)
	}
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	b.wantStored(t, group, map[string]int{"v1": len(contents)})
	b.wantContents(t, group, contents)
	if left := b.crd(t, name).Annotations["crdver.dev/rescued"]; left != "" {
		t.Errorf("the annotation says %q", left)
	}
	after := b.revisions(t)
	contains(t, b.must(t, 0, "rescue", name, "--yes").stderr, "Nothing to do")
	contains(t, b.must(t, 0, "rescue", "--deep", "--yes").stderr, "Nothing to rescue: every object of 1 CRD can be read")
	b.wantUnwritten(t, after)
}

// TestRescueLosses has a storage version whose schema lacks a field that objects
// at the missing version have: a rewrite would destroy it without a word.
func TestRescueLosses(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, n = "narrow.example.com", 2
	c := crontabs(group, "v1", "v1alpha1")
	delete(testbed.Version(c, "v1").Schema.OpenAPIV3Schema.Properties["spec"].Properties, "image")
	manifest, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	name := b.lose(t, c, n)
	contents := b.contents(t, group)
	got := b.must(t, 3, "rescue", name, "--yes")
	contains(t, got.stderr, "spec.image in 2 objects")
	b.wantContents(t, group, contents)
	// What a stopped run leaves is readable, and says so.
	c = b.crd(t, name)
	b.wantVersions(t, name, []string{"v1 storage", "v1alpha1 unserved"}, []string{"v1", "v1alpha1"})
	if c.Annotations["crdver.dev/rescued"] != "v1alpha1" || testbed.Version(c, "v1alpha1") == nil || len(c.Status.StoredVersions) != 2 {
		t.Errorf("annotations %q, storedVersions %q", c.Annotations, c.Status.StoredVersions)
	}
	contains(t, b.must(t, 0, "status", name).stdout, "kubectl crdver rescue "+name)
	got = b.must(t, 0, "rescue", name, "--yes", "--allow-loss", "spec.image", "-f", writeFile(t, "old.yaml", manifest))
	contains(t, got.stdout, name+" rescued")
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	for key, text := range contents {
		contents[key] = strings.Replace(text, `"image":"example.com/cron:v1",`, "", 1) // Those at v1 never had it.
	}
	b.wantContents(t, group, contents)
}

// TestRescueCorrupt has an object whose bytes are damaged: it is named, and
// nothing is done to it.
func TestRescueCorrupt(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "damaged.example.com"
	name := b.lose(t, crontabs(group, "v1", "v1alpha1"), 2)
	key := "/registry/" + group + "/crontabs/a/v1-1"
	if _, err := b.Etcd().Put(t.Context(), key, "{\x00 damaged"); err != nil {
		t.Fatal(err)
	}
	before := b.revisions(t)
	got := b.must(t, 3, "rescue", name, "--yes")
	contains(t, got.stderr, "1 object cannot be decoded at all", "a/v1-1: ", "backup of etcd", "--until list-stored")
	b.wantUnwritten(t, before)
}

// TestRescueKilled kills a rescue at random instants and continues it.
func TestRescueKilled(t *testing.T) {
	t.Parallel()
	plugin := binary(t)
	b := start(t, testbed.InProcessOptions{})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			group := fmt.Sprintf("rescue%d.example.com", i)
			name := b.lose(t, crontabs(group, "v1", "v1alpha1", "v1alpha2"), 4)
			contents := b.contents(t, group)
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			for range 3 {
				at, _, err := b.kill(t.Context(), plugin, random, 15, []string{"rescue", name, "--yes"})
				t.Logf("%s, %v", at, err)
			}
			b.wantContents(t, group, contents)
			b.must(t, 0, "rescue", name, "--yes")
			b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
			b.wantStored(t, group, map[string]int{"v1": len(contents)})
			b.wantContents(t, group, contents)
		})
	}
}

// TestRescueStepByStep has more objects at one missing version than the server
// names, so that the other one is not known at first, and a saved plan.
func TestRescueStepByStep(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "many.example.com"
	name := b.lose(t, crontabs(group, "v1", "v1alpha1", "v1alpha2"), 101)
	contents := b.contents(t, group)
	got := b.must(t, 4, "rescue", name, "--yes")
	contains(t, got.stderr, "objects are also stored at v1alpha2", "nothing was rewritten")
	b.wantContents(t, group, contents)
	b.wantVersions(t, name, []string{"v1 storage", "v1alpha1 unserved"}, []string{"v1", "v1alpha1"})
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	b.must(t, 0, "rescue", name, "--plan-out", plan)
	b.must(t, 0, "apply", "-f", plan, "--yes")
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	b.wantStored(t, group, map[string]int{"v1": len(contents)})
	b.wantContents(t, group, contents)
	contains(t, b.must(t, 3, "apply", "-f", plan, "--yes").stderr, "stale")
}

// TestRescueWebhook has a conversion webhook, and looks at every CRD without
// being told which.
func TestRescueWebhook(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "hooked.example.com"
	converter, err := testbed.StartConverter(t.Context(), testbed.ConverterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(converter.Stop)
	c := crontabs(group, "v1", "v1beta1")
	c.Spec.Conversion = converter.Conversion("v1")
	name := b.lose(t, c, 2)
	contents := b.contents(t, group)
	b.createCRD(t, crontabs("sound.example.com", "v1"))
	// One that does not convert: nothing is rewritten, and the version is unserved.
	converter.SetFault(testbed.FaultWrongVersion)
	got := b.run(t, "rescue", "--yes", "--until", "migrate")
	if got.code == 0 {
		t.Errorf("without a webhook that converts: %s", got)
	}
	contains(t, got.stderr, "did not convert an object that was made up: v1beta1 to v1: ")
	b.wantContents(t, group, contents)
	if v := testbed.Version(b.crd(t, name), "v1beta1"); v != nil && v.Served {
		t.Error("v1beta1 is still served")
	}
	converter.SetFault("")
	got = b.must(t, 0, "rescue", "--yes", "--until", "migrate")
	contains(t, got.stderr, "objects are converted by a webhook: it has to know v1beta1")
	b.wantVersions(t, name, []string{"v1 storage", "v1beta1 unserved"}, []string{"v1", "v1beta1"})
	b.wantStored(t, group, map[string]int{"v1": len(contents)})
	b.wantContents(t, group, contents)
}

// TestRescueInterrupted is interrupted while the versions are served for the
// rehearsal: they are not left behind served, with a schema that keeps everything.
func TestRescueInterrupted(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "halfway.example.com"
	name := b.lose(t, crontabs(group, "v1", "v1alpha1"), 3)
	contents := b.contents(t, group)
	behind, proxy := b.behindProxy(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	proxy.StepIn(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/"+testbed.CronTabPlural+"/") {
			interrupt() // A dry run of the rehearsal: nothing else comes before it.
		}
		next.ServeHTTP(w, r)
	})
	got := execute(ctx, neverRead{t}, "rescue", name, "--yes", "--kubeconfig", behind.kubeconfig)
	if got.code != 130 {
		t.Fatal(got)
	}
	if v := testbed.Version(b.crd(t, name), "v1alpha1"); v == nil || v.Served {
		t.Errorf("v1alpha1 is %+v: %s", v, got)
	}
	b.wantContents(t, group, contents)
	b.must(t, 0, "rescue", name, "--yes")
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	b.wantContents(t, group, contents)
}

package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestBogusStoredVersions has entries in status.storedVersions that the server
// accepts there and chokes on elsewhere.
func TestBogusStoredVersions(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "bogus.example.com"
	name := b.scene(t, group, 10)
	b.patchStored(t, name, "v1beta1", "v0bogus")
	before := b.revisions(t)
	for _, args := range [][]string{
		{"promote", "v1", name, "--yes"}, {"retire", "v1beta1", name, "--yes"}, {"deprecate", "v1beta1", name, "--yes"},
		{"retire", "v0bogus", name, "--yes"},
	} {
		got := b.must(t, 3, args...)
		if args[0] == "retire" && args[1] == "v1beta1" {
			contains(t, got.stderr, "kubectl crdver promote v1 "+name) // It comes first.
			continue
		}
		contains(t, got.stderr, "v0bogus", "the server refuses every change of the spec", "kubectl crdver migrate "+name)
	}
	b.wantUnwritten(t, before)
	b.must(t, 0, "migrate", name, "--yes")
	b.wantVersions(t, name, []string{"v1beta1 storage", "v1"}, []string{"v1beta1"})
	b.must(t, 0, "promote", "v1", name, "--yes")
	b.must(t, 0, "retire", "v1beta1", name, "--yes")
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	b.wantStored(t, group, map[string]int{"v1": 10})

	for i, stored := range [][]string{{"v1beta1", "v1beta1"}, {"v1"}, {"v1", "v1", "v1beta1", "v1"}} {
		group := "odd" + string(rune('a'+i)) + ".example.com"
		name := b.scene(t, group, 10)
		b.patchStored(t, name, stored...)
		b.must(t, 0, "migrate", name, "--yes")
		b.wantVersions(t, name, []string{"v1beta1 storage", "v1"}, []string{"v1beta1"})
		b.patchStored(t, name, stored...)
		b.must(t, 0, "promote", "v1", name, "--yes")
		b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1"})
		b.wantStored(t, group, map[string]int{"v1": 10})
	}
}

// wrongTrim does what people do by hand: it makes v1 the storage version, trims
// the list without rewriting anything, and removes v1beta1.
func (b *bed) wrongTrim(t *testing.T, name, group string) {
	t.Helper()
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1") })
	b.patchStored(t, name, "v1")
	crds := b.crds(t).ApiextensionsV1().CustomResourceDefinitions()
	c := b.crd(t, name)
	c.Spec.Versions = c.Spec.Versions[1:]
	if _, err := crds.Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		_, err := b.objects(t).Resource(resource(group, "v1")).List(t.Context(), metav1.ListOptions{Limit: 1})
		return err != nil
	})
}

// TestRescueAfterWrongTrim makes every command say how the objects come back,
// and come to an end, and then brings them back.
func TestRescueAfterWrongTrim(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, n = "rescue.example.com", 20
	manifest := crontabs(group, "v1beta1", "v1")
	name := b.scene(t, group, n)
	b.wrongTrim(t, name, group)
	before := b.revisions(t)
	for _, args := range [][]string{
		{"promote", "v1", name, "--yes"}, {"migrate", name, "--yes"}, {"migrate", name, "--force", "--yes"},
		{"migrate", name, "-l", "a=b", "--yes"},
		{"retire", "v1beta1", name, "--yes"}, {"promote", "v2", name, "--from", "v1", "--yes"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		got := execute(ctx, neverRead{t}, append(args, "--kubeconfig", b.kubeconfig)...)
		cancel()
		if got.code != 1 && got.code != 3 {
			t.Errorf("%q: want exit code 1 or 3, got %s", args, got)
		}
		contains(t, got.stderr, "stored at v1beta1", "kubectl crdver rescue "+name, "-f ", "intact")
		for _, bad := range []string{"delete", "fact ", "too many requests"} {
			if strings.Contains(got.stderr, bad) {
				t.Errorf("%q says %q: %s", args, bad, got.stderr)
			}
		}
	}
	b.wantUnwritten(t, before)

	text, err := yaml.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, "old.yaml", text)
	b.must(t, 0, "restore", "v1beta1", name, "-f", file, "--yes")
	b.wantVersions(t, name, []string{"v1 storage", "v1beta1 unserved"}, []string{"v1"})
	b.wantStored(t, group, map[string]int{"v1beta1": n})
	if _, err := b.objects(t).Resource(resource(group, "v1")).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the objects cannot be listed: %v", err)
	}
	again := b.revisions(t)
	b.must(t, 0, "restore", "v1beta1", name, "-f", file, "--yes")
	b.wantUnwritten(t, again)
	b.must(t, 0, "migrate", name, "--yes")
	b.wantStored(t, group, map[string]int{"v1": n})
	b.must(t, 0, "retire", "v1beta1", name, "--yes")
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	if _, err := b.objects(t).Resource(resource(group, "v1")).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the objects cannot be listed: %v", err)
	}
}

// TestRetireDoesNotTrustTheList has storedVersions trimmed by hand while all
// objects are at the old version.
func TestRetireDoesNotTrustTheList(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, n = "liar.example.com", 25
	name := b.scene(t, group, n)
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1") })
	b.patchStored(t, name, "v1")
	b.wantStored(t, group, map[string]int{"v1beta1": n})
	b.must(t, 0, "retire", "v1beta1", name, "--yes")
	b.wantStored(t, group, map[string]int{"v1": n})
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
}

// TestTie has two versions of the same priority.
func TestTie(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, n = "tie.example.com", 10
	name := b.createCRD(t, crontabs(group, "v01", "v1", "v1beta1"))
	b.createObjects(t, group, "v01", n, "a")
	got := b.must(t, 0, "promote", "v1", name, "--deprecate-older", "--yes")
	contains(t, got.stderr, "v1 and v01 have the same priority")
	b.wantStored(t, group, map[string]int{"v1": n})
	c := b.crd(t, name)
	if testbed.Version(c, "v01").Deprecated || !testbed.Version(c, "v1beta1").Deprecated {
		t.Error("v1beta1 is older than v1, v01 is not")
	}
	b.must(t, 0, "retire", "v01", name, "--yes")
	b.wantVersions(t, name, []string{"v1 storage", "v1beta1"}, []string{"v1"})
	got = b.must(t, 1, "promote", "v01", name, "--yes")
	contains(t, got.stderr, `has no version "v01"; did you mean "v1"?`)
}

// TestTerminalEscapes has escape sequences wherever a text can come from.
func TestTerminalEscapes(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, evil = "evil.example.com", "\x1b[31mred\x1b]0;title\x07\u202e\r"
	c := crontabs(group, "v1beta1", "v1")
	c.Annotations = map[string]string{"meta.helm.sh/release-name": evil, "crdver.dev/retired": evil}
	c.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	for i := range c.Spec.Versions {
		c.Spec.Versions[i].Schema.OpenAPIV3Schema.Description = evil
	}
	name := b.createCRD(t, c)
	b.createObjects(t, group, "v1beta1", 2, "a")
	text, err := yaml.Marshal(crontabs(group, "v1beta1", "v2"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := strings.Replace(string(text), "crontabs."+group, `"crontabs.`+group+`\e[31m"`, 1)
	for _, args := range [][]string{
		{"deprecate", "v1beta1", name, "--message", evil + group + "/v1beta1 CronTab", "--yes"},
		{"promote", evil, name, "--yes"},
		{"promote", "v1", evil, "--yes"},
		{"promote", "v1", name, "--until", evil, "--yes"},
		{"promote", "v1", name, "--yes"},
		{"promote", "v2", name, "--yes", "-f", writeFile(t, "evil.yaml", []byte(manifest))},
		{"migrate", "-l", evil, name},
		{"retire", "v1beta1", name, "--yes"},
		{"apply", "-f", evil},
		{"restore", "v9", name, "--from", evil},
	} {
		got := b.run(t, args...)
		for _, output := range []string{got.stdout, got.stderr} {
			if strings.ContainsAny(output, "\x1b\x07\u202e\r") {
				t.Errorf("%q: %q", args, output)
			}
		}
	}
	contains(t, b.run(t, "deprecate", "v1", name, "--message", evil).stderr, "cannot be printed")
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
}

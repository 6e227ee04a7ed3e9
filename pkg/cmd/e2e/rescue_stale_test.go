package e2e_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// lackingImage returns a CRD in which the versions lack the field spec.image.
func lackingImage(group string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	c := crontabs(group, "v1", "v1alpha1")
	for _, version := range versions {
		delete(testbed.Version(c, version).Schema.OpenAPIV3Schema.Properties["spec"].Properties, "image")
	}
	return c
}

// annotationsOf returns the annotations of a CRD that a rescue makes.
func (b *bed) annotationsOf(t *testing.T, name string) []string {
	t.Helper()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(b.crd(t, name).Annotations)), func(key string) bool {
		return !strings.Contains(key, "rescue")
	})
}

// TestRescueStaleManifest has manifests, last applied or given with -f, that lack a
// field which the missing version had by the time objects were stored at it. With such
// a schema the server would drop the field as soon as it reads an object.
func TestRescueStaleManifest(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	for what, more := range map[string][]string{"applied": nil, "given": {"-f"}, "given-unserved": {"-f", "--serve=false"}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			group := "stale-" + what + ".example.com"
			stale := lackingImage(group, "v1", "v1alpha1")
			applied, err := json.Marshal(stale)
			if err != nil {
				t.Fatal(err)
			}
			c := lackingImage(group, "v1") // v1alpha1 got the field since.
			c.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": string(applied)}
			name := b.lose(t, c, 2)
			contents := b.contents(t, group)
			args := []string{"rescue", name}
			if len(more) > 0 {
				manifest, err := yaml.Marshal(stale)
				if err != nil {
					t.Fatal(err)
				}
				args = append(args, "-f", writeFile(t, "old.yaml", manifest))
			}
			got := b.must(t, 0, append(args, "--dry-run=client")...)
			contains(t, got.stdout, "its schema is one that keeps every field")
			if strings.Contains(got.stdout+got.stderr, "never stored") {
				t.Errorf("it claims what nobody knows: %s", got)
			}
			if len(more) > 0 {
				contains(t, got.stdout, "is not used as its schema")
			}
			if !slices.Contains(more, "--serve=false") {
				got = b.must(t, 3, append(args, "--yes")...)
				contains(t, got.stderr, "spec.image in 2 objects")
				b.wantContents(t, group, contents)
			}
			// The storage version gets the field: then nothing is lost.
			b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
				testbed.Version(c, "v1").Schema = testbed.Version(crontabs(group, "v1"), "v1").Schema
			})
			if slices.Contains(more, "--serve=false") {
				args = append(args, "--serve=false")
			}
			b.must(t, 0, append(args, "--yes")...)
			b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
			b.wantStored(t, group, map[string]int{"v1": len(contents)})
			b.wantContents(t, group, contents)
			if left := b.annotationsOf(t, name); len(left) > 0 {
				t.Errorf("annotations are left: %q", left)
			}
		})
	}
}

// TestRescueTellsLosses has a manifest that has a field which the storage version
// lacks: the plan tells, before anything can be rehearsed.
func TestRescueTellsLosses(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "told.example.com"
	c := lackingImage(group, "v1")
	manifest, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	name, file := b.lose(t, c, 2), writeFile(t, "old.yaml", manifest)
	before := b.revisions(t)
	contains(t, b.must(t, 0, "rescue", name, "-f", file, "--dry-run=client").stdout,
		"the schema of v1 lacks fields that v1alpha1 has in "+file+": spec.image; what objects have there is lost by any rewrite")
	contains(t, b.must(t, 0, "restore", "v1alpha1", name, "--from", "v1", "--dry-run=client").stdout,
		"fields that it lacks are invisible, and the next write of an object drops them for good", "-f MANIFEST", "kubectl crdver rescue "+name)
	b.wantUnwritten(t, before)
}

// TestRescueThenRestored has a rescue that a loss ended, and somebody who serves the
// version since, with "restore" or by hand: clients write at it. It is a version like
// any other then, and no rescue removes it.
func TestRescueThenRestored(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	for what, serve := range map[string]func(t *testing.T, name string){
		"restore": func(t *testing.T, name string) {
			t.Helper()
			contains(t, b.must(t, 0, "restore", "v1alpha1", name, "--yes").stderr, "it keeps every field, and validates none")
			if left := b.annotationsOf(t, name); len(left) > 0 {
				t.Errorf("annotations are left: %q", left)
			}
		},
		"hand": func(t *testing.T, name string) {
			t.Helper()
			b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.Version(c, "v1alpha1").Served = true })
		},
		"manifest": func(t *testing.T, name string) {
			t.Helper()
			b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
				v := testbed.Version(c, "v1alpha1")
				v.Served, v.Schema = true, testbed.Version(crontabs(c.Spec.Group, "v1alpha1"), "v1alpha1").Schema
			})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			group := "served-" + what + ".example.com"
			name := b.lose(t, lackingImage(group, "v1"), 2)
			contains(t, b.must(t, 3, "rescue", name, "--yes").stderr, "spec.image in 2 objects")
			if left := b.annotationsOf(t, name); !slices.Equal(left, []string{"crdver.dev/rescued"}) {
				t.Errorf("annotations: %q", left)
			}
			serve(t, name)
			b.until(t, group, "v1alpha1", true)
			b.createOne(t, newCronTab(group, "v1alpha1", "a", "since", 7))
			contents := b.contents(t, group)
			if next := b.must(t, 0, "status", name).stdout; strings.Contains(next, "kubectl crdver rescue") {
				t.Errorf("rescue is offered for what is served: %s", next)
			}
			for range 2 {
				b.must(t, 0, "rescue", name, "--yes", "--allow-loss", "spec.image")
				b.wantVersions(t, name, []string{"v1 storage", "v1alpha1"}, []string{"v1", "v1alpha1"})
				b.wantContents(t, group, contents)
				if left := b.annotationsOf(t, name); len(left) > 0 {
					t.Errorf("annotations are left: %q", left)
				}
			}
		})
	}
}

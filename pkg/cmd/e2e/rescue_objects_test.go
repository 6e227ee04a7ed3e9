package e2e_test

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestRescueClusterScoped has objects in no namespace.
func TestRescueClusterScoped(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "lost-wide.example.com"
	c := crontabs(group, "v1", "v1alpha1", "v1alpha2")
	c.Spec.Scope = apiextensionsv1.ClusterScoped
	name := b.lose(t, c, 3)
	contents := b.contents(t, group)
	b.must(t, 0, "rescue", name, "--yes")
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	b.wantStored(t, group, map[string]int{"v1": len(contents)})
	b.wantContents(t, group, contents)
	if list, err := b.objects(t).Resource(resource(group, "v1")).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != len(contents) {
		t.Errorf("the objects cannot be listed: %v", err)
	}
}

// TestRescueTerminating has an object that somebody deleted before its version was
// lost, and that a finalizer keeps: nobody could remove that any more. It is
// rewritten like any other, stays as it is, and goes when the finalizer does.
func TestRescueTerminating(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "lost-going.example.com"
	c := crontabs(group, "v1", "v1alpha1")
	name := b.lose(t, c, 3, func(string) {
		old := b.objects(t).Resource(resource(group, "v1alpha1")).Namespace("a")
		if err := old.Delete(t.Context(), "v1alpha1-0", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		object, err := old.Get(t.Context(), "v1alpha1-0", metav1.GetOptions{})
		if err != nil || object.GetDeletionTimestamp() == nil {
			t.Fatalf("the finalizer does not keep it: %v", err)
		}
	})
	contents := b.contents(t, group)
	objects := b.objects(t).Resource(resource(group, "v1")).Namespace("a")
	unfinalize := func() error {
		_, err := objects.Patch(t.Context(), "v1alpha1-0", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	}
	if err := unfinalize(); err == nil {
		t.Error("the finalizer can be removed although the version is gone: the test shows nothing")
	}
	b.must(t, 0, "rescue", name, "--yes")
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	b.wantStored(t, group, map[string]int{"v1": len(contents)})
	b.wantContents(t, group, contents)
	if err := unfinalize(); err != nil {
		t.Errorf("the finalizer cannot be removed: %v", err)
	}
	if _, err := objects.Get(t.Context(), "v1alpha1-0", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestRescueFromTheWrongManifest has files that cannot be meant: of another CRD, of
// this one without the version, and with another scope. Nothing is written.
func TestRescueFromTheWrongManifest(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "lost-file.example.com"
	name := b.lose(t, crontabs(group, "v1", "v1alpha1"), 2)
	contents, before := b.contents(t, group), b.revisions(t)
	wide := crontabs(group, "v1", "v1alpha1")
	wide.Spec.Scope = apiextensionsv1.ClusterScoped
	kind := crontabs(group, "v1", "v1alpha1")
	kind.Spec.Names.Kind, kind.Spec.Names.ListKind = "Other", "OtherList"
	for _, test := range []struct {
		what string
		crd  *apiextensionsv1.CustomResourceDefinition
		code int
		says string
	}{
		{"of another CRD", crontabs("other.example.com", "v1", "v1alpha1"), 1, "is one of " + name},
		{"of another scope", wide, 1, "its scope is Cluster, not Namespaced"},
		{"of another kind", kind, 1, "its kind is Other, not CronTab"},
	} {
		t.Run(test.what, func(t *testing.T) {
			text, err := yaml.Marshal(test.crd)
			if err != nil {
				t.Fatal(err)
			}
			file := writeFile(t, "crd.yaml", text)
			for _, more := range [][]string{{"--yes"}, {"--dry-run=server"}} {
				contains(t, b.must(t, test.code, append([]string{"rescue", name, "-f", file}, more...)...).stderr, test.says)
			}
			b.wantUnwritten(t, before)
		})
	}
	// The right CRD without the version tells nothing.
	text, err := yaml.Marshal(crontabs(group, "v1", "v1alpha7"))
	if err != nil {
		t.Fatal(err)
	}
	got := b.must(t, 0, "rescue", name, "-f", writeFile(t, "crd.yaml", text), "--yes")
	contains(t, got.stderr, "has no version v1alpha1 of "+name+": it tells nothing about its fields")
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	b.wantContents(t, group, contents)
}

package e2e_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestCase49MigrateBeforeScaleDown is case 49: objects are migrated while the
// controllers that convert them still run. Without them nothing is begun; if they
// go away meanwhile (a certificate is rotated), they are waited for, which is
// shown; what validation refuses is sent once; and there is nothing to do twice.
func TestCase49MigrateBeforeScaleDown(t *testing.T) {
	t.Parallel()
	m, guard := &traffic{}, &policy{object: "object-000039"}
	b := start(t, testbed.InProcessOptions{Middleware: m.wrap, Admission: guard})
	const group, n = "case49.example.com", 40
	hook := startWebhook(t)
	name := b.createCRD(t, hook.converted(group))
	b.createObjects(t, group, "v1beta1", n, "a")
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
		testbed.SetStorageVersion(c, "v1")
		testbed.Version(c, "v1beta1").Served = false
	})
	contents, before := b.contents(t, group), b.revisions(t)

	hook.down.Store(true)
	got := b.must(t, 3, "migrate", name, "--yes")
	contains(t, got.stderr, "conversion webhook", "to resolve: ")
	b.wantUnwritten(t, before)
	hook.down.Store(false)

	// The webhook goes away after a quarter of the objects, and an object is refused
	// from then on.
	patches, gone := map[string]int{}, sync.Once{}
	m.stepIn(func(r *http.Request) {
		if !patchesObject(r) {
			return
		}
		m.lock.Lock()
		defer m.lock.Unlock()
		patches[r.URL.Path]++
		if len(patches) == n/4 { // Those that are sent again are the same ones.
			gone.Do(func() {
				guard.refuses.Store(true)
				hook.down.Store(true)
				time.AfterFunc(2*time.Second, func() { hook.down.Store(false) })
			})
		}
	})
	got = b.must(t, 4, "migrate", name, "--yes", "--concurrency", "2", "--progress", "plain")
	m.stepIn(nil)
	contains(t, got.stderr, "the conversion webhook does not answer: paused", "the conversion webhook answers again after")
	contains(t, got.stdout, "1 refused", "a/object-000039")
	sent := 0
	for path, times := range patches {
		if strings.HasSuffix(path, "/object-000039") {
			sent = times
		}
	}
	if sent == 0 || sent > 3 { // Once, or again because the webhook was away.
		t.Errorf("the refused object was sent %d times", sent)
	}
	b.wantStored(t, group, map[string]int{"v1": n - 1, "v1beta1": 1})
	b.wantVersions(t, name, []string{"v1beta1 unserved", "v1 storage"}, []string{"v1beta1", "v1"})

	guard.refuses.Store(false)
	b.must(t, 0, "migrate", name, "--yes")
	b.wantStored(t, group, map[string]int{"v1": n})
	b.wantVersions(t, name, []string{"v1beta1 unserved", "v1 storage"}, []string{"v1"})
	after := b.contents(t, group)
	for key, text := range contents {
		if want := strings.Replace(text, `"schedule":`, `"cronSpec":`, 1); len(after[key]) != len(want) {
			t.Errorf("%s was %s, is %s", key, text, after[key])
		}
	}
	done := b.revisions(t)
	contains(t, b.must(t, 0, "migrate", name, "--yes").stdout, name+" unchanged")
	b.wantUnwritten(t, done)
	// The default is the limit that was reported to be needed, and more.
	contains(t, b.must(t, 0, "migrate", "--help").stdout, "--webhook-patience duration", "(default 3m0s)")
}

// TestCase57AnnotationThatGrows is case 57: a webhook that keeps the whole spec in
// an annotation makes large objects unreadable at the other version. They are named
// one by one, nothing is written before that is put right, and the others are found
// to be in order.
func TestCase57AnnotationThatGrows(t *testing.T) {
	t.Parallel()
	m := &traffic{}
	b := start(t, testbed.InProcessOptions{Middleware: m.wrap})
	const group, n = "case57.example.com", 8
	converter, err := testbed.StartConverter(t.Context(), testbed.ConverterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(converter.Stop)
	c := testbed.HostPorts(group)
	c.Spec.Conversion = converter.Conversion("v1")
	name := b.createCRD(t, c)
	for i := range n {
		object := testbed.NewHostPort(group, "v1beta1", "a", "object-"+string(rune('a'+i)), i)
		if i%4 == 3 {
			object.Object["spec"].(map[string]any)["settings"] = map[string]any{"text": strings.Repeat("x", 300_000)}
		}
		b.createOne(t, object)
	}
	converter.SetFault(testbed.FaultHugeAnnotation)
	contents, before := b.contents(t, group), b.revisions(t)
	got := b.must(t, 3, "promote", "v1", name, "--yes")
	contains(t, got.stderr, "refuse to rewrite 2 of 8 objects", "a/object-d: ConversionFailed", "a/object-h: ConversionFailed", "262144")
	b.wantUnwritten(t, before)

	// Somebody flips the storage version all the same: at the new one, the server
	// cannot list any of them for the two.
	b.writeCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v1") })
	eventually(t, func() bool {
		_, err := b.objects(t).Resource(resource(group, "v1")).List(t.Context(), metav1.ListOptions{Limit: 500})
		return err != nil
	})
	got = b.must(t, 3, "migrate", name, "--yes")
	contains(t, got.stderr, "refuse to rewrite 2 of 8 objects", "a/object-d: ConversionFailed", "a/object-h: ConversionFailed")
	b.wantContents(t, group, contents)

	// The webhook begins with it during the migration: the two are reported, and
	// the others are rewritten all the same.
	converter.SetFault("")
	m.stepIn(func(r *http.Request) {
		if patchesObject(r) {
			converter.SetFault(testbed.FaultHugeAnnotation)
		}
	})
	got = b.must(t, 4, "migrate", name, "--yes")
	m.stepIn(nil)
	contains(t, got.stdout, "8 objects: ", "2 refused", "ConversionFailed", "a/object-d", "a/object-h")
	b.wantStored(t, group, map[string]int{"v1": n - 2, "v1beta1": 2})
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1beta1", "v1"})
}

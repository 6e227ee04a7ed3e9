package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func TestDeprecateMessages(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "words.example.com"
	c := crontabs(group, "v1beta1", "v1", "v2", "v1alpha1")
	testbed.Version(c, "v1alpha1").Deprecated = true
	testbed.Version(c, "v2").Served = false
	name := b.createCRD(t, c)
	names := group + "/v1beta1 CronTab "
	for _, test := range []struct {
		args []string
		code int
		says string
		// warning is what clients get afterwards.
		warning string
	}{
		{[]string{"--message", names + strings.Repeat("x", 257-len(names))}, 1, "--message is 257 bytes long; the server takes at most 256", ""},
		{[]string{"--message", "old"}, 1, `--message names neither "words.example.com/v1beta1 CronTab" nor "words.example.com/v1 CronTab"`, ""},
		{[]string{"--message", group + "/v1alpha1 CronTab is old"}, 1, "--message names neither", ""},
		{[]string{"--message", group + "/v1beta10 CronTab is old"}, 1, "--message names neither", ""},
		{[]string{"--message", "x" + group + "/v1 CronTab is old"}, 1, "--message names neither", ""},
		{[]string{"--message", group + "/v1beta1 CronTabs is old"}, 1, "--message names neither", ""},
		{[]string{"--message", "\xff" + names}, 1, "not valid UTF-8", ""},
		{[]string{"--replacement", "v2"}, 1, "--replacement v2 is not served; serve it first: kubectl crdver restore v2 " + name, ""},
		{[]string{"--replacement", "v1alpha1"}, 1, "--replacement v1alpha1 is itself deprecated", ""},
		{nil, 0, "clients get: Warning: 299", names + "is deprecated; use " + group + "/v1 CronTab"},
		{[]string{"--message", names + strings.Repeat("x", 256-len(names))}, 0, "", names + strings.Repeat("x", 256-len(names))},
		{[]string{"--message", "Use " + group + "/v1, CronTab \"now\"."}, 0, "", "Use " + group + `/v1, CronTab "now".`},
		{[]string{"--replacement", "v1"}, 0, "", names + "is deprecated; use " + group + "/v1 CronTab"},
		{[]string{"--undo"}, 0, "clients get no warning", ""},
	} {
		got := b.must(t, test.code, append([]string{"deprecate", "v1beta1", name, "--yes"}, test.args...)...)
		contains(t, got.stdout+got.stderr, test.says)
		entry, warning := testbed.Version(b.crd(t, name), "v1beta1"), ""
		if entry.DeprecationWarning != nil {
			warning = *entry.DeprecationWarning
		}
		if warning != test.warning || entry.Deprecated != (test.warning != "") {
			t.Errorf("%q: deprecated %t, warning %q, want %q", test.args, entry.Deprecated, warning, test.warning)
		}
		if got := b.warning(t, group, "v1beta1"); got != test.warning {
			t.Errorf("%q: clients get %q, want %q", test.args, got, test.warning)
		}
	}
}

// warning returns the Warning header that a client gets at a version.
func (b *bed) warning(t *testing.T, group, version string) string {
	t.Helper()
	config, texts := b.Config(), warnings{}
	config.WarningHandler = &texts
	if _, err := dynamicFor(t, config).Resource(resource(group, version)).List(t.Context(), metav1.ListOptions{Limit: 1}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(texts, "\n")
}

type warnings []string

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { *w = append(*w, text) }

func TestSeveralCRDs(t *testing.T) {
	t.Parallel()
	guard := &policy{object: "object-000001"}
	b := start(t, testbed.InProcessOptions{Admission: guard})
	one, two := b.scene(t, "one.example.com", 6), b.scene(t, "two.example.com", 6)
	three := b.createCRD(t, crontabs("three.example.com", "v1"))
	b.must(t, 1, "promote", "v1")

	// One is blocked, the others are done, and the exit code says so.
	guard.refuses.Store(true)
	got := b.must(t, 3, "promote", "v1", three, one, "--yes")
	contains(t, got.stderr, "the plan for "+one+" is blocked: the server would refuse to rewrite 1 of 6 objects")
	guard.refuses.Store(false)
	b.patchStored(t, one, "v1beta1", "v0bogus")
	got = b.must(t, 3, "promote", "v1", "--all", "--yes")
	contains(t, got.stdout, one+" not promoted to v1 (refused)", two+" promoted to v1", three+" unchanged")
	b.wantStored(t, "two.example.com", map[string]int{"v1": 6})
	b.wantStored(t, "one.example.com", map[string]int{"v1beta1": 6})
	b.must(t, 0, "migrate", one, "--yes")
	b.must(t, 0, "promote", "v1", "--group", "one.example.com", "--yes")
	b.wantStored(t, "one.example.com", map[string]int{"v1": 6})
	b.updateCRD(t, one, addLabel)
	got = b.must(t, 0, "retire", "v1beta1", "-l", "team=storage", "--yes")
	contains(t, got.stdout, one+" retired v1beta1")
	b.wantVersions(t, two, []string{"v1beta1", "v1 storage"}, []string{"v1"})
	// The only one that still fits needs no name.
	contains(t, b.must(t, 0, "deprecate", "v1beta1", "--yes").stdout, two+" deprecated v1beta1")
	// A version that one of them does not have: nothing is done to any.
	before := b.revisions(t)
	b.must(t, 1, "deprecate", "v1beta1", two, three, "--yes")
	b.must(t, 1, "deprecate", "v1", one, two, "--replacement", "v9", "--yes")
	b.wantUnwritten(t, before)
}

func TestMigrateAPart(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, n = "part.example.com", 20
	name := b.scene(t, group, n)
	b.must(t, 0, "promote", "v1", name, "--until", "set-storage", "--yes")
	objects := b.objects(t).Resource(resource(group, "v1"))
	body := []byte(`{"metadata":{"labels":{"pick":"me"}}}`)
	before := []string{"v1beta1", "v1"}
	if err := testbed.WaitForStorageVersion(t.Context(), b, resource(group, "v1"), newCronTab(group, "v1", "a", "probe", 0), "v1"); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Namespace("b").Patch(t.Context(), "object-000001", types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	b.wantStored(t, group, map[string]int{"v1": 1, "v1beta1": n - 1})
	got := b.must(t, 0, "migrate", name, "-n", "a", "--yes")
	contains(t, got.stdout, "10 objects: ", "partly migrated", "to continue: kubectl crdver migrate "+name+" --kubeconfig ")
	contains(t, got.stderr, "status.storedVersions is not trimmed")
	b.wantStored(t, group, map[string]int{"v1": 11, "v1beta1": n - 11})
	b.must(t, 0, "migrate", name, "-l", "pick=me", "--yes")
	b.wantStored(t, group, map[string]int{"v1": 11, "v1beta1": n - 11})
	contains(t, b.must(t, 1, "migrate", name, "-n", "a", "-l", "pick=me", "--yes").stderr,
		"there are no objects in the namespace a with labels that match pick=me in "+name)
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, before)
	// All of them, one namespace after the other, and still no proof.
	b.must(t, 0, "migrate", name, "-n", "b", "--yes")
	b.wantStored(t, group, map[string]int{"v1": n})
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, before)
	b.must(t, 0, "migrate", name, "--yes")
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1"})
}

func TestClusterScopedAndWithoutObjects(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, n = "scope.example.com", 12
	c := crontabs(group, "v1beta1", "v1")
	c.Spec.Scope = apiextensionsv1.ClusterScoped
	name := b.createCRD(t, c)
	for i := range n {
		object := newCronTab(group, "v1beta1", "", "object-"+string(rune('a'+i)), i)
		if _, err := b.objects(t).Resource(resource(group, "v1beta1")).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b.must(t, 1, "migrate", name, "-n", "a", "--yes")
	b.must(t, 0, "promote", "v1", name, "--yes")
	b.wantStored(t, group, map[string]int{"v1": n})
	b.must(t, 0, "retire", "v1beta1", name, "--yes")
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})

	// The historical entry of a CRD without objects goes at once.
	empty := b.createCRD(t, crontabs("empty.example.com", "v1beta1", "v1"))
	contains(t, b.must(t, 0, "promote", "v1", empty, "--yes").stdout, "0 objects")
	b.must(t, 0, "retire", "v1beta1", empty, "--yes")
	b.wantVersions(t, empty, []string{"v1 storage"}, []string{"v1"})
}

// TestAddAndPromote adds a version, from a copy and from a manifest, and goes on.
func TestAddAndPromote(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, n = "add.example.com", 12
	name := b.createCRD(t, crontabs(group, "v1beta1"))
	b.createObjects(t, group, "v1beta1", n, "a")
	b.must(t, 0, "promote", "v1", name, "--from", "v1beta1", "--deprecate-older", "--yes")
	b.wantStored(t, group, map[string]int{"v1": n})
	if !testbed.Version(b.crd(t, name), "v1beta1").Deprecated {
		t.Error("v1beta1 is not deprecated")
	}
	b.must(t, 0, "retire", "v1beta1", name, "--yes")
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	// The way back.
	b.must(t, 0, "promote", "v1beta1", name, "--from", "v1", "--yes")
	b.must(t, 0, "retire", "v1", name, "--yes")
	b.wantStored(t, group, map[string]int{"v1beta1": n})
	b.wantVersions(t, name, []string{"v1beta1 storage"}, []string{"v1beta1"})
	// And to v1 once more: that it was retired is history.
	b.must(t, 0, "promote", "v1", name, "--from", "v1beta1", "--yes")
	b.must(t, 0, "retire", "v1beta1", name, "--yes")
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
}

// TestServerTrouble answers some requests with 429, 503 and a broken
// connection: the run waits and finishes.
func TestServerTrouble(t *testing.T) {
	t.Parallel()
	var count int
	lock := make(chan struct{}, 1)
	b := start(t, testbed.InProcessOptions{Middleware: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if patchesObject(r) && strings.HasPrefix(r.UserAgent(), "kubectl-crdver") {
				lock <- struct{}{}
				count++
				number := count
				<-lock
				switch number % 12 {
				case 3:
					w.Header().Set("Retry-After", "1")
					http.Error(w, "slow down", http.StatusTooManyRequests)
					return
				case 7:
					http.Error(w, "later", http.StatusServiceUnavailable)
					return
				case 11:
					panic(http.ErrAbortHandler)
				}
			}
			next.ServeHTTP(w, r)
		})
	}})
	const group, n = "trouble.example.com", 60
	name := b.scene(t, group, n)
	got := b.must(t, 0, "promote", "v1", name, "--yes")
	contains(t, got.stdout, "sent again")
	b.wantStored(t, group, map[string]int{"v1": n})
	b.must(t, 0, "retire", "v1beta1", name, "--yes")
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
}

package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// command is a command of a case and what has to come of it. $CRD stands for the
// name of the case's CRD, $GROUP for its group.
type command struct {
	args string
	code int
	says []string
}

// TestReportedFailures are failures that people reported, by their number in
// the collection: a state of a CRD, what a good tool does about it, and the
// state afterwards.
func TestReportedFailures(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	for _, test := range []struct {
		name string
		// versions are those of the CRD, the first one stored; a version with "-"
		// is not served, and one with "!" is deprecated.
		versions string
		// storage is the version to flip to after the objects were created, and
		// stored what status.storedVersions is patched to.
		storage  string
		stored   []string
		objects  int
		change   func(c *apiextensionsv1.CustomResourceDefinition)
		commands []command
		// after and left are the versions and storedVersions at the end.
		after, left []string
	}{
		{
			name: "03 migration after the removal", versions: "v2alpha1", objects: 4,
			commands: []command{
				{"promote v2 $CRD", 1, []string{`has no version "v2"`}},
				{"retire v2alpha1 $CRD --yes", 3, []string{"v2alpha1 is the storage version", "add another version to spec.versions"}},
				{"promote v2 $CRD --from v2alpha1 --yes", 0, []string{"promoted to v2"}},
				{"retire v2alpha1 $CRD --yes", 0, nil},
			},
			after: []string{"v2 storage"}, left: []string{"v2"},
		},
		{
			name: "05 two hops without a rewrite", versions: "v1alpha4- v1alpha5", storage: "v1alpha5", objects: 6,
			commands: []command{
				{"retire v1alpha4 $CRD --yes", 0, []string{"6 objects", "trim status.storedVersions to [v1alpha5]"}},
			},
			after: []string{"v1alpha5 storage"}, left: []string{"v1alpha5"},
		},
		{
			name: "09 owned by OLM", versions: "v1alpha1! v2alpha1", storage: "v2alpha1", objects: 3,
			change: func(c *apiextensionsv1.CustomResourceDefinition) {
				c.Labels = map[string]string{"olm.managed": "true", "operators.coreos.com/datadog": ""}
			},
			commands: []command{
				{"retire v1alpha1 $CRD --dry-run=server", 0, []string{"the CRD is owned by OLM", "it will put the spec back"}},
				{"migrate $CRD --yes", 0, []string{"storedVersions [v2alpha1]"}},
			},
			after: []string{"v1alpha1", "v2alpha1 storage"}, left: []string{"v2alpha1"},
		},
		{
			name: "11 moving backwards", versions: "v1alpha1 v1", storage: "v1", objects: 6,
			commands: []command{
				{"retire v1 $CRD --yes", 3, []string{"v1 is the storage version", "kubectl crdver promote v1alpha1 $CRD"}},
				{"promote v1alpha1 $CRD --yes", 0, nil},
				{"retire v1 $CRD --yes", 0, nil},
			},
			after: []string{"v1alpha1 storage"}, left: []string{"v1alpha1"},
		},
		{
			name: "13 the cluster is newer than the manifest", versions: "v1api20200601storage v1api20200601 v1api20240601 v1api20240601storage",
			storage: "v1api20240601storage", objects: 3,
			commands: []command{
				{"retire v1api20240601storage $CRD --yes", 3, []string{"v1api20240601storage is the storage version"}},
				{"retire v1api20200601storage $CRD --yes", 0, nil},
			},
			after: []string{"v1api20200601", "v1api20240601", "v1api20240601storage storage"}, left: []string{"v1api20240601storage"},
		},
		{
			name: "15 listed, and none is there", versions: "v1alpha6- v1alpha7! v1beta1", storage: "v1beta1",
			stored: []string{"v1alpha6", "v1alpha7", "v1beta1"},
			commands: []command{
				{"retire v1alpha6 $CRD --yes", 0, []string{"0 objects", "trim status.storedVersions to [v1beta1]"}},
				{"retire v1alpha7 $CRD --yes", 0, nil},
			},
			after: []string{"v1beta1 storage"}, left: []string{"v1beta1"},
		},
		{
			name: "25 the first of the list is not the best", versions: "v1alpha1 v1beta1", objects: 2,
			commands: []command{
				{"deprecate v1alpha1 $CRD --yes", 0, []string{"v1alpha1 CronTab is deprecated; use $GROUP/v1beta1 CronTab"}},
				{"promote v1beta1 $CRD --yes", 0, nil},
			},
			after: []string{"v1alpha1", "v1beta1 storage"}, left: []string{"v1beta1"},
		},
		{
			name: "27 a deprecated beta and a new alpha", versions: "v1beta1! v2alpha1", objects: 3,
			commands: []command{
				{"promote v2alpha1 $CRD --yes", 0, nil},
				{"retire v1beta1 $CRD --yes", 0, nil},
			},
			after: []string{"v2alpha1 storage"}, left: []string{"v2alpha1"},
		},
		{
			name: "29 the reference order", versions: "v11alpha2 v12alpha1 foo10 foo1 v3beta1 v10beta3 v11beta2 v1 v2 v10", objects: 2,
			commands: []command{
				{"deprecate foo1 $CRD --yes", 0, []string{"use $GROUP/v10 CronTab"}},
				{"deprecate v10 $CRD --yes", 0, []string{"use $GROUP/v2 CronTab"}},
				{"promote v2 $CRD --deprecate-older --until set-storage --yes", 0, nil},
			},
		},
		{
			name: "35 all versions are deprecated", versions: "v1alpha1! v1beta1!", objects: 2,
			commands: []command{
				{"promote", 1, []string{"wrong number of arguments"}},
				{"deprecate v1alpha1 $CRD --message $GROUP/v1alpha1:CronTab --yes", 0, nil},
				{"promote v1beta1 $CRD --yes", 0, []string{"v1beta1 is deprecated"}},
				{"retire v1alpha1 $CRD --yes", 0, nil},
			},
			after: []string{"v1beta1 storage"}, left: []string{"v1beta1"},
		},
		{
			name: "51 unserved and deprecated, without a converter", versions: "v1beta1-! v1", storage: "v1", objects: 5,
			commands: []command{
				{"restore v1beta1 $CRD --yes", 0, []string{"restored v1beta1"}},
				{"retire v1beta1 $CRD --until unserve --yes", 0, []string{"the way back: kubectl crdver restore v1beta1 $CRD"}},
				{"retire v1beta1 $CRD --yes", 0, nil},
			},
			after: []string{"v1 storage"}, left: []string{"v1"},
		},
		{
			name: "73 nothing is old", versions: "v1 v1beta1", objects: 3,
			commands: []command{
				{"migrate $CRD --yes", 0, []string{"$CRD unchanged"}},
				{"migrate $CRD --force --yes", 0, []string{"3 already current"}},
			},
			after: []string{"v1 storage", "v1beta1"}, left: []string{"v1"},
		},
		{
			name: "79 no version is served", versions: "v1alpha1- v1-", storage: "v1",
			commands: []command{
				{"migrate $CRD --yes", 3, []string{"no version is served", "kubectl crdver restore v1 $CRD"}},
				{"retire v1alpha1 $CRD --yes", 3, []string{"no version is served", "kubectl crdver restore v1 $CRD"}},
				{"restore v1 $CRD --yes", 0, nil},
				{"retire v1alpha1 $CRD --yes", 0, nil},
			},
			after: []string{"v1 storage"}, left: []string{"v1"},
		},
		{
			name: "93 evidence before the removal", versions: "v1beta1- v2", storage: "v2", objects: 5,
			commands: []command{
				{"retire v1beta1 $CRD --yes", 0, []string{"proof: pass ", "over 5 objects found every one stored at v2 (CRD generation ", "no managedFields entry names v1beta1"}},
			},
			after: []string{"v2 storage"}, left: []string{"v2"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			group := "case" + test.name[:2] + ".example.com"
			name := b.inState(t, group, test.versions, test.storage, test.objects, test.change)
			if test.stored != nil {
				b.patchStored(t, name, test.stored...)
			}
			fill := strings.NewReplacer("$CRD", name, "$GROUP", group)
			for _, c := range test.commands {
				got := b.must(t, c.code, strings.Fields(fill.Replace(c.args))...)
				for _, says := range c.says {
					contains(t, got.stdout+got.stderr, fill.Replace(says))
				}
			}
			if test.after != nil {
				b.wantVersions(t, name, test.after, test.left)
				want := map[string]int{}
				if test.objects > 0 {
					want[test.left[0]] = test.objects
				}
				b.wantStored(t, group, want)
			}
		})
	}
}

// inState creates a CRD with objects that are stored at its first version, and
// then makes it what the case says.
func (b *bed) inState(t *testing.T, group, versions, storage string, objects int, change func(*apiextensionsv1.CustomResourceDefinition)) string {
	t.Helper()
	names := strings.Fields(strings.NewReplacer("-", "", "!", "").Replace(versions))
	c := crontabs(group, names...)
	name := b.createCRD(t, c)
	b.createObjects(t, group, names[0], objects, "a", "b")
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
		if storage != "" {
			testbed.SetStorageVersion(c, storage)
		}
		for i, text := range strings.Fields(versions) {
			c.Spec.Versions[i].Served = !strings.Contains(text, "-")
			c.Spec.Versions[i].Deprecated = strings.Contains(text, "!")
		}
		if change != nil {
			change(c)
		}
	})
	return name
}

// TestThreeCRDsOfOneBundle is case 01: one of the three stays blocked, the
// exit code says so, and the others are done.
func TestThreeCRDsOfOneBundle(t *testing.T) {
	t.Parallel()
	guard := &policy{object: "object-000003"}
	b := start(t, testbed.InProcessOptions{Admission: guard})
	var names []string
	for i, n := range []int{2, 5, 3} {
		names = append(names, b.inState(t, "bundle"+string(rune('a'+i))+".example.com", "v1beta1 v1", "v1", n, func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Labels = map[string]string{"bundle": "karpenter"}
		}))
	}
	guard.refuses.Store(true)
	got := b.must(t, 3, "retire", "v1beta1", "-l", "bundle=karpenter", "--yes")
	contains(t, got.stdout, names[0]+" retired v1beta1", names[1]+" not retired v1beta1 (refused)", names[2]+" retired v1beta1")
	b.wantVersions(t, names[1], []string{"v1beta1", "v1 storage"}, []string{"v1beta1", "v1"})
	guard.refuses.Store(false)
	got = b.must(t, 0, "retire", "v1beta1", "-l", "bundle=karpenter", "--yes")
	contains(t, got.stdout, names[0]+" unchanged", names[1]+" retired v1beta1")
	for _, name := range names {
		b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	}
}

// TestDeniedListIsNotEmpty is case 71: objects that may not be listed are not
// objects that are not there.
func TestDeniedListIsNotEmpty(t *testing.T) {
	t.Parallel()
	var deny atomic.Bool
	b := start(t, testbed.InProcessOptions{Middleware: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if deny.Load() && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/"+testbed.CronTabPlural) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusForbidden)
				_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden",` +
					`"message":"crontabs.denied.example.com is forbidden: User \"joe\" cannot list resource \"crontabs\""}`))
				return
			}
			next.ServeHTTP(w, r)
		})
	}})
	const group = "denied.example.com"
	name := b.inState(t, group, "v1alpha1 v1", "v1", 4, nil)
	deny.Store(true)
	before := b.revisions(t)
	for _, args := range [][]string{{"retire", "v1alpha1", name}, {"migrate", name}, {"promote", "v1", name}} {
		got := b.run(t, append(args, "--yes")...)
		if got.code != 1 && got.code != 3 {
			t.Errorf("%q: %s", args, got)
		}
		contains(t, got.stderr, "cannot list resource")
	}
	b.wantUnwritten(t, before)
	deny.Store(false)
	b.must(t, 0, "retire", "v1alpha1", name, "--yes")
	b.wantStored(t, group, map[string]int{"v1": 4})
}

// TestOwnerReferences is case 83: children that name the version in their
// ownerReferences keep it from being unserved.
func TestOwnerReferences(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "owner.example.com"
	name := b.scene(t, group, 3)
	b.must(t, 0, "promote", "v1", name, "--yes")
	children := crontabs("children.example.com", "v1")
	b.createCRD(t, children)
	child := newCronTab("children.example.com", "v1", "a", "child", 1)
	child.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: group + "/v1beta1", Kind: testbed.CronTabKind, Name: "object-000000", UID: "u"}})
	objects := b.objects(t).Resource(resource("children.example.com", "v1")).Namespace("a")
	if _, err := objects.Create(t.Context(), child, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before := b.revisions(t)
	got := b.must(t, 3, "retire", "v1beta1", name, "--yes")
	contains(t, got.stderr, "1 object", "ownerReference", "crontabs.children.example.com", "a/child", "--allow-owner-references")
	b.wantUnwritten(t, before)
	b.must(t, 0, "retire", "v1beta1", name, "--yes", "--allow-owner-references")
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	var after *unstructured.Unstructured
	after, err := objects.Get(t.Context(), "child", metav1.GetOptions{})
	if err != nil || after.GetOwnerReferences()[0].APIVersion != group+"/v1beta1" {
		t.Errorf("the child was changed: %v, %v", after, err)
	}
}

// TestLossBlocks is the other half of kind B: a field that the new schema lacks
// would be lost for good, and blocks the plan.
func TestLossBlocks(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group, n = "loss.example.com", 6
	c := crontabs(group, "v1beta1", "v1")
	delete(testbed.Version(c, "v1").Schema.OpenAPIV3Schema.Properties["spec"].Properties, "image")
	name := b.createCRD(t, c)
	b.createObjects(t, group, "v1beta1", n, "a")
	before := b.revisions(t)
	got := b.must(t, 3, "promote", "v1", name, "--yes")
	contains(t, got.stderr, "rewriting objects at v1 would lose or change fields for good", "spec.image lost in 6 objects", "to resolve: ")
	if strings.Contains(got.stderr, "example.com/cron:v1") {
		t.Error("it shows the value of a field")
	}
	b.wantUnwritten(t, before)

	// Of a version that is not served yet the schema is looked at: once it is
	// served, any client could write through it, before a rehearsal could.
	text, err := yaml.Marshal(crontabs(group, "v2"))
	if err != nil {
		t.Fatal(err)
	}
	poor := strings.Replace(string(text), "image:", "picture:", 1)
	got = b.must(t, 3, "promote", "v2", name, "-f", writeFile(t, "crd.yaml", []byte(poor)), "--yes")
	contains(t, got.stderr, "the schema of v2 lacks 1 of the fields of v1beta1", "spec.image", "to resolve: ")
	b.wantUnwritten(t, before)
	b.wantVersions(t, name, []string{"v1beta1 storage", "v1"}, []string{"v1beta1"})
	b.wantStored(t, group, map[string]int{"v1beta1": n})
}

// TestCase23StorageFlipsDuringMigration is case 23: somebody makes another version
// the storage version while objects are rewritten. Nothing is trimmed, the change
// is named, and storedVersions claims no less than what etcd holds; running again
// plans from there.
func TestCase23StorageFlipsDuringMigration(t *testing.T) {
	t.Parallel()
	m := &traffic{}
	b := start(t, testbed.InProcessOptions{Middleware: m.wrap})
	const group, n = "case23.example.com", 40
	name := b.createCRD(t, crontabs(group, "v1beta1", "v1", "v2"))
	b.createObjects(t, group, "v1beta1", n, "a", "b")
	var once sync.Once
	m.stepIn(func(r *http.Request) {
		if patchesObject(r) {
			once.Do(func() {
				b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(c, "v2") })
			})
		}
	})
	got := b.must(t, 3, "promote", "v1", name, "--yes")
	m.stepIn(nil)
	contains(t, got.stderr, "generation", "run again to plan from here")
	counts, err := testbed.CountByVersion(t.Context(), b.Etcd(), group, testbed.CronTabPlural)
	if err != nil {
		t.Fatal(err)
	}
	listed := b.crd(t, name).Status.StoredVersions
	for version := range counts {
		if !slices.Contains(listed, version) {
			t.Errorf("etcd has %v, storedVersions %q", counts, listed)
		}
	}
	if len(listed) != 3 {
		t.Errorf("storedVersions %q were trimmed", listed)
	}
	b.must(t, 0, "migrate", name, "--yes")
	b.wantStored(t, group, map[string]int{"v2": n})
	b.wantVersions(t, name, []string{"v1beta1", "v1", "v2 storage"}, []string{"v2"})
}

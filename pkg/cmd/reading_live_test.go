package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// server is an API server in this process and a kubeconfig for it.
type server struct {
	*testbed.InProcess
	kubeconfig string
}

func startServer(t *testing.T) server {
	t.Helper()
	if testing.Short() {
		t.Skip("starts an API server")
	}
	bed, err := testbed.StartInProcess(t.Context(), testbed.InProcessOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Stop)
	s := server{bed, filepath.Join(t.TempDir(), "kubeconfig")}
	if err := bed.WriteKubeconfig(s.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs the plugin on the server.
func (s server) run(t *testing.T, args ...string) result {
	t.Helper()
	return runPlugin(t, append(args, "--kubeconfig", s.kubeconfig)...)
}

// must runs the plugin, which has to succeed.
func (s server) must(t *testing.T, args ...string) result {
	t.Helper()
	got := s.run(t, args...)
	if got.code != 0 {
		t.Fatalf("%v: %+v", args, got)
	}
	return got
}

func (s server) crds(t *testing.T) clientset.Interface {
	t.Helper()
	config := s.Config()
	config.QPS, config.RateLimiter = -1, nil
	client, err := clientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// create creates a CRD and waits until it is served.
func (s server) create(t *testing.T, one *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	if _, err := testbed.CreateCRD(t.Context(), s.Config(), one); err != nil {
		t.Fatal(err)
	}
}

// crontabsIn returns the CRD of the test bed in another group.
func crontabsIn(group string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	one := testbed.CronTabs(versions...)
	one.Spec.Group, one.Name = group, one.Spec.Names.Plural+"."+group
	return one
}

// called gives a CRD other names.
func called(one *apiextensionsv1.CustomResourceDefinition, plural, kind string) *apiextensionsv1.CustomResourceDefinition {
	one.Name = plural + "." + one.Spec.Group
	one.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{
		Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List",
	}
	return one
}

func decodeJSON[T any](t *testing.T, text string) T {
	t.Helper()
	var into T
	decoder := json.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(&into); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	if decoder.More() {
		t.Fatalf("more than one document in %q", text)
	}
	return into
}

// TestOrderIsDiscoverys is must-show 1: on a live group with GA, beta, alpha and
// non-conforming versions, sort, /apis/GROUP and the aggregated document agree.
func TestOrderIsDiscoverys(t *testing.T) {
	s := startServer(t)
	const group = "order.example.com"
	want := []string{"v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"}
	s.create(t, crontabsIn(group, "foo10", "v12alpha1", "v1", "v3beta1", "v10", "foo1", "v11beta2", "v11alpha2", "v2", "v10beta3"))
	// Another resource of the group has versions of its own.
	s.create(t, called(crontabsIn(group, "v3", "v1"), "widgets", "Widget"))
	if err := waitForAggregated(t.Context(), s, group, "crontabs", want); err != nil {
		t.Error(err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	groups, err := client.ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	var document []string
	for _, one := range groups.Groups {
		for _, version := range one.Versions {
			if one.Name == group && slices.Contains(want, version.Version) {
				document = append(document, version.Version)
			}
		}
	}
	if !slices.Equal(document, want) {
		t.Errorf("the group document lists %v", document)
	}

	got := s.must(t, "sort", "crontabs."+group, "-o", "json")
	if got.stderr != "" {
		t.Errorf("stderr %q", got.stderr)
	}
	var names []string
	for i, item := range decodeJSON[v1alpha1.VersionList](t, got.stdout).Items {
		names = append(names, item.Name)
		if item.Priority != i+1 || item.GroupPriority != i+1 || item.AggregatedPriority != i+1 || item.DiscoveryProblem != "" || item.KubectlDefault != (i == 0) {
			t.Errorf("%+v", item)
		}
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	reversed := s.must(t, "sort", "ct", "--reverse", "-o", "jsonpath={.items[*].name}")
	slices.Reverse(names)
	if reversed.stdout != strings.Join(names, " ") {
		t.Errorf("reversed: %+v", reversed)
	}
	all := s.must(t, "sort", "--no-headers")
	if lines := strings.Split(all.stdout, "\n"); len(lines) != 13 || !slices.Equal(strings.Fields(lines[10])[:2], []string{"widgets.order.example.com", "v3"}) {
		t.Errorf("all:\n%s", all.stdout)
	}
}

// waitForAggregated waits until the aggregated document lists a resource so.
func waitForAggregated(ctx context.Context, s server, group, resource string, want []string) error {
	client, err := discovery.NewDiscoveryClientForConfig(s.Config())
	if err != nil {
		return err
	}
	var got []string
	err = wait.PollUntilContextTimeout(ctx, 50e6, 20e9, true, func(ctx context.Context) (bool, error) {
		body, err := client.RESTClient().Get().AbsPath("/apis").SetHeader("Accept", discovery.AcceptV2).Do(ctx).Raw()
		if err != nil {
			return false, err
		}
		var list apidiscoveryv2.APIGroupDiscoveryList
		if err := json.Unmarshal(body, &list); err != nil {
			return false, err
		}
		got = nil
		for _, one := range list.Items {
			for _, version := range one.Versions {
				for _, served := range version.Resources {
					if one.Name == group && served.Resource == resource {
						got = append(got, version.Version)
					}
				}
			}
		}
		return slices.Equal(got, want), nil
	})
	if err != nil {
		return fmt.Errorf("aggregated discovery lists %v: %w", got, err)
	}
	return nil
}

// TestStatusLive follows a CRD whose stored versions are changed by hand until
// nobody can read its objects any more.
func TestStatusLive(t *testing.T) {
	s := startServer(t)
	ctx := t.Context()
	one := testbed.CronTabs("v1beta1", "v1")
	testbed.Version(one, "v1beta1").Deprecated = true
	one.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm", "team": "a"}
	one.Annotations = map[string]string{"meta.helm.sh/release-name": "cron\x1b[2J"}
	s.create(t, one)
	if err := testbed.CreateObjects(ctx, s.Config(), testbed.CronTabResource("v1"), 7, testbed.ObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := waitForAggregated(ctx, s, testbed.CronTabGroup, testbed.CronTabPlural, []string{"v1", "v1beta1"}); err != nil {
		t.Error(err)
	}

	row := s.must(t, "status")
	want := "NAME                          SERVED       STORAGE   STORED    DEPRECATED   CONVERSION   OBJECTS   NEXT\n" +
		"crontabs.stable.example.com   v1,v1beta1   v1beta1   v1beta1   v1beta1      None         7         promote v1\n"
	if diff := cmp.Diff(result{stdout: want}, row, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if named := s.must(t, "status", "ct", "-o", "table"); named.stdout != want ||
		named.stderr != "Warning: stable.example.com/v1beta1 CronTab is deprecated; use stable.example.com/v1 CronTab\n" {
		t.Errorf("named: %+v", named)
	}
	detail := s.must(t, "status", "crontab")
	wantDetail := `Name:         crontabs.stable.example.com
Kind:         CronTab (Namespaced)
Established:  true
Served:       v1, v1beta1
Storage:      v1beta1
Stored:       v1beta1
Trusted:      yes: nothing is known to have trimmed the list
Default:      v1
Conversion:   None
Objects:      7
Discovery:    agrees (/apis/stable.example.com and the aggregated document)
Managed by:   Helm cron^[[2J (label app.kubernetes.io/managed-by=Helm)
              cmd.test (managedFields: "cmd.test" wrote spec.versions at TIME)
Versions:
  VERSION   PRIORITY   STABILITY   STATE     DEPRECATED   REMOVABLE
  v1        1          GA          served    false        not yet: served
  v1beta1   2          beta        storage   true         not yet: storage version, in storedVersions
Stored versions:
  VERSION   IN-SPEC   SERVED   OBJECTS
  v1beta1   true      true     7
Warnings:     v1beta1: stable.example.com/v1beta1 CronTab is deprecated; use stable.example.com/v1 CronTab
Next:         kubectl crdver promote v1 crontabs.stable.example.com
              (objects are stored at v1beta1, and v1 comes first)
`
	undated := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`).ReplaceAllString(detail.stdout, "TIME")
	if diff := cmp.Diff(wantDetail, undated); diff != "" {
		t.Errorf("detail (-want +got):\n%s", diff)
	}

	list := decodeJSON[v1alpha1.StatusList](t, s.must(t, "status", "-l", "team=a", "-o", "json").stdout)
	if item := list.Items[0]; item.UID == "" || item.ResourceVersion == "" || *item.Objects != 7 || !item.StoredVersionsTrust.Trusted ||
		!item.Discovery.Agrees || !slices.Equal(item.Discovery.Aggregated, []string{"v1", "v1beta1"}) || item.Next.Command != "kubectl crdver promote v1 crontabs.stable.example.com" {
		t.Errorf("item %+v", item)
	}
	var fromYAML v1alpha1.StatusList
	if err := yaml.Unmarshal([]byte(s.must(t, "status", "-l", "team=a", "-o", "yaml").stdout), &fromYAML); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list, fromYAML); diff != "" {
		t.Errorf("JSON and YAML differ:\n%s", diff)
	}
	for _, format := range []string{"json", "name", "table"} {
		empty := s.must(t, "status", "-l", "team=none", "-o", format)
		if empty.stderr != "No resources found\n" || format == "json" != (empty.stdout != "") {
			t.Errorf("%s of nothing: %+v", format, empty)
		}
	}

	// Somebody flips the storage version and trims the list by hand.
	if _, err := testbed.UpdateCRD(ctx, s.Config(), one.Name, func(c *apiextensionsv1.CustomResourceDefinition) {
		testbed.SetStorageVersion(c, "v1")
	}); err != nil {
		t.Fatal(err)
	}
	if got := s.must(t, "status", "ct", "-o", "table").stdout; !strings.Contains(got, "v1        v1beta1,v1   v1beta1      None         7         migrate\n") {
		t.Errorf("after the flip:\n%s", got)
	}
	if got := s.must(t, "status", "ct").stdout; !strings.Contains(got, "  v1beta1   true      true     unknown: the API does not tell; kubectl crdver migrate makes sure\n") {
		t.Errorf("after the flip:\n%s", got)
	}
	_, err := s.crds(t).ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, one.Name, types.MergePatchType,
		[]byte(`{"status":{"storedVersions":["v1"]}}`), metav1.PatchOptions{FieldManager: "by-hand"}, "status")
	if err != nil {
		t.Fatal(err)
	}
	trimmed := s.must(t, "status", "ct").stdout
	for _, line := range []string{
		`Trusted:      no: status.storedVersions was last written by "by-hand"`,
		"  v1beta1   2          beta        deprecated   true         not yet: served\n",
		"Next:         kubectl crdver migrate crontabs.stable.example.com\n              (storedVersions cannot be trusted)\n",
	} {
		if !strings.Contains(trimmed, line) {
			t.Errorf("after the trim, no %q in\n%s", line, trimmed)
		}
	}
	if got := s.must(t, "status").stdout; !strings.Contains(got, "v1        v1?      v1beta1") {
		t.Errorf("after the trim:\n%s", got)
	}

	// And removes the version at which the objects are (case 21, fact 1).
	crds := s.crds(t).ApiextensionsV1().CustomResourceDefinitions()
	live, err := crds.Get(ctx, one.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	live.Spec.Versions = slices.DeleteFunc(live.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == "v1beta1" })
	if _, err := crds.Update(ctx, live, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := waitForAggregated(ctx, s, testbed.CronTabGroup, testbed.CronTabPlural, []string{"v1"}); err != nil {
		t.Error(err)
	}
	lost := s.must(t, "status", "ct").stdout
	if !strings.Contains(lost, "Objects:      unknown: objects are stored at v1beta1, which spec.versions of crontabs.stable.example.com no longer has: they are intact") ||
		!strings.Contains(lost, "Next:         kubectl crdver rescue crontabs.stable.example.com") || strings.Contains(lost, "delete") {
		t.Errorf("after the removal:\n%s", lost)
	}
}

// TestRequireLive is case 89.
func TestRequireLive(t *testing.T) {
	s := startServer(t)
	one := testbed.CronTabs("v1", "v1beta1")
	testbed.Version(one, "v1beta1").Served = false
	s.create(t, one)
	if got := s.must(t, "status", "ct", "--require", "v1", "-o", "name"); got.stderr != "" || got.stdout == "" {
		t.Errorf("served: %+v", got)
	}
	for version, want := range map[string]string{
		"v1alpha3": "error: crontabs.stable.example.com: v1alpha3 is not in spec.versions (have v1, v1beta1)\n",
		"v1beta1": "error: crontabs.stable.example.com: v1beta1 is in spec.versions but not served; " +
			"serve it with: kubectl crdver restore v1beta1 crontabs.stable.example.com\n",
	} {
		if got := s.run(t, "status", "ct", "--require", version); got.code != ExitRefused || got.stderr != want {
			t.Errorf("%s: %+v", version, got)
		}
	}
	if got := s.run(t, "status", "-l", "no=thing", "--require", "v1"); got.code != ExitRefused {
		t.Errorf("nothing selected: %+v", got)
	}
}

// TestTieLive is case 31 and fact 19.
func TestTieLive(t *testing.T) {
	s := startServer(t)
	s.create(t, testbed.CronTabs("v1", "v01"))
	got := s.must(t, "sort", "ct", "-o", "wide")
	if !strings.Contains(got.stderr, "Warning: crontabs.stable.example.com: v1 and v01 have the same priority: which one kubectl uses is undefined\n") {
		t.Errorf("no warning: %+v", got)
	}
	if !strings.Contains(got.stdout, "same priority as v01: ordered by name, and undefined for the API server") {
		t.Errorf("no reason:\n%s", got.stdout)
	}
	items := decodeJSON[v1alpha1.VersionList](t, s.must(t, "sort", "ct", "-o", "json").stdout).Items
	if items[0].Name != "v1" || items[0].TiesWith != "v01" || items[1].TiesWith != "v1" {
		t.Errorf("items %+v", items)
	}
}

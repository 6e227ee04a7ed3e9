package etcd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/client-go/dynamic"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/etcd"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestCountsWhatTheServerWrote: objects written by a real API server at two
// versions, deleted and made again, before and after etcd forgets the past.
func TestCountsWhatTheServerWrote(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts an API server")
	}
	bed, err := testbed.StartInProcess(t.Context(), testbed.InProcessOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Stop)
	config, client := bed.Config(), bed.Etcd()
	live, err := testbed.CreateCRD(t.Context(), config, testbed.CronTabs("v1beta1", "v1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := testbed.CreateObjects(t.Context(), config, testbed.CronTabResource("v1"), 30, testbed.ObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := testbed.UpdateCRD(t.Context(), config, testbed.CronTabCRD, func(crd *apiextensionsv1.CustomResourceDefinition) {
		testbed.SetStorageVersion(crd, "v1")
	}); err != nil {
		t.Fatal(err)
	}
	if err := testbed.WaitForStorageVersion(t.Context(), bed, testbed.CronTabResource("v1"), testbed.NewCronTab("v1", "default", "probe", 0), "v1"); err != nil {
		t.Fatal(err)
	}
	deleteSomeAndMakeOneAgain(t, bed)
	truth := func() map[string]int {
		counts, err := testbed.CountByVersion(t.Context(), client, testbed.CronTabGroup, testbed.CronTabPlural)
		if err != nil {
			t.Fatal(err)
		}
		return counts
	}
	if truth()["v1beta1"] != 25 || truth()["v1"] != 1 {
		t.Fatalf("the test is not set up as it should be: %v", truth())
	}

	check := func(what string, source etcd.Source) {
		t.Helper()
		definitions, err := etcd.ReadDefinitions(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		crd := definitions.Get(testbed.CronTabCRD)
		if crd == nil || crd.UID != live.UID || crd.Spec.Names.Kind != "CronTab" || crd.Spec.Names.ShortNames[0] != "ct" || len(crd.Spec.Versions) != 2 {
			t.Fatalf("%s: the CRD is %+v", what, crd)
		}
		items, err := etcd.Count(t.Context(), source, []etcd.Target{etcd.TargetOf(crd)}, etcd.CountOptions{Namespaces: true, At: "v1"})
		if err != nil {
			t.Fatal(err)
		}
		want := []v1alpha1.StoredCount{
			{Version: "v1", Objects: int64(truth()["v1"]), State: v1alpha1.StoredCurrent},
			{Version: "v1beta1", Objects: int64(truth()["v1beta1"]), State: v1alpha1.StoredListed},
		}
		if diff := cmp.Diff(want, items[0].Stored); diff != "" {
			t.Errorf("%s: -want +got:\n%s", what, diff)
		}
		var sum int64
		for _, namespace := range items[0].Namespaces {
			for _, count := range namespace.Stored {
				sum += count.Objects
			}
		}
		if sum != items[0].Objects || sum != 26 || len(items[0].Found) != 1 || items[0].Revision == 0 {
			t.Errorf("%s: %d objects in namespaces, found %v at revision %d", what, sum, items[0].Found, items[0].Revision)
		}
	}
	check("live", openLive(t, etcd.LiveOptions{Endpoints: []string{bed.EmbeddedEtcd().Endpoint()}}))
	check("snapshot", openSnapshot(t, save(t, client), etcd.SnapshotOptions{}))

	now, err := client.Get(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	check("compacted", openSnapshot(t, save(t, client), etcd.SnapshotOptions{}))
	if _, err := client.Defragment(t.Context(), bed.EmbeddedEtcd().Endpoint()); err != nil {
		t.Fatal(err)
	}
	check("defragmented", openSnapshot(t, save(t, client), etcd.SnapshotOptions{}))
}

// deleteSomeAndMakeOneAgain deletes five of the objects and makes one of them
// again, at the storage version of now.
func deleteSomeAndMakeOneAgain(t *testing.T, bed *testbed.InProcess) {
	t.Helper()
	objects, err := testbed.Stored(t.Context(), bed.Etcd(), testbed.CronTabGroup, testbed.CronTabPlural)
	if err != nil {
		t.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(bed.Config()).Resource(testbed.CronTabResource("v1"))
	for _, object := range objects[:5] {
		if err := client.Namespace(object.Namespace).Delete(t.Context(), object.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	again := testbed.NewCronTab("v1", objects[0].Namespace, objects[0].Name, 0)
	if _, err := client.Namespace(objects[0].Namespace).Create(t.Context(), again, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestEveryKindOfValue: what an API server may have written, and what it cannot have.
func TestEveryKindOfValue(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	cbor, err := direct.Marshal(map[string]any{"spec": map[string]any{"a": "b"}, "kind": "Widget", "apiVersion": "example.com/v2"})
	if err != nil {
		t.Fatal(err)
	}
	protobuf := "k8s\x00\x0a\x18\x0a\x0eexample.com/v3\x12\x06Widget\x12\x02\x08\x01"
	const prefix = "/kubernetes.io/example.com/widgets/"
	put(t, server.Client(),
		prefix+"a/json", widget("v1"),
		prefix+"a/json-other-order", `{"spec":{"apiVersion":"example.com/v9","kind":["x",{"y":1}]},"kind":"Widget","n":1,"apiVersion":"example.com/v1"}`,
		prefix+"a/json-cut-short-after", `{"apiVersion":"example.com/v1","kind":"Widget","spec":`,
		prefix+"a/json-more-after", widget("v1")+"{}",
		prefix+"a/json-damaged-after", `{"apiVersion":"example.com/v1","kind":"Widget","spec":{"a":}}`,
		prefix+"a/json-end-of-line-after", widget("v1")+"\n",
		prefix+"a/cbor", "\xd9\xd9\xf7"+string(cbor),
		prefix+"cluster-scoped", "\xd9\xd9\xf7"+string(cbor),
		prefix+"a/protobuf", protobuf,
		prefix+"a/encrypted", "k8s:enc:aescbc:v1:key1:\x00\x01\x02",
		prefix+"a/encrypted-kms", "k8s:enc:kms:v2:name:\x00\x01\x02",
		prefix+"a/other-group", `{"apiVersion":"other.com/v1","kind":"Widget"}`,
		prefix+"a/core-group", `{"apiVersion":"v1","kind":"Widget"}`,
		prefix+"a/group-that-ends-alike", `{"apiVersion":"my.example.com/v1","kind":"Widget"}`,
		prefix+"a/no-version", `{"apiVersion":"example.com/","kind":"Widget"}`,
		prefix+"a/no-group-version", `{"apiVersion":"example.com/v1/x","kind":"Widget"}`,
		prefix+"a/empty", "",
		prefix+"a/garbage", "\x00\xffnothing",
		prefix+"a/cbor-broken", "\xd9\xd9\xf7\xa1",
		prefix+"a/protobuf-broken", "k8s\x00\x0a\xff",
		prefix+"a/no-kind", `{"apiVersion":"example.com/v1"}`,
		// None of these is a widget.
		"/kubernetes.io/example.com/widgetsets/a/b", widget("v1"),
		"/kubernetes.io/example.com/widgets", widget("v1"),
		"/registry/example.com/widgets/a/b", widget("v1"),
		"/kubernetes.io/deployments/a/b", widget("v1"),
		"unrelated", widget("v1"),
	)
	file := save(t, server.Client())
	const want = "v3: 1, v2: 2, v1: 3, encrypted kms: 1, encrypted aescbc: 1, undecodable: 13"
	for _, given := range []string{"kubernetes.io", "/kubernetes.io/"} {
		wantCounts(t, openSnapshot(t, file, etcd.SnapshotOptions{Prefix: given}), widgets(), want)
		wantCounts(t, openLive(t, etcd.LiveOptions{Endpoints: []string{server.Endpoint()}, Prefix: given}), widgets(), want)
	}
	wantCounts(t, openSnapshot(t, file, etcd.SnapshotOptions{}), widgets(), "v1: 1")

	for at, names := range map[string]string{
		etcd.AtEncrypted: "[{a encrypted} {a encrypted-kms}]",
		etcd.AtUndecodable: "[{a cbor-broken} {a core-group} {a empty} {a garbage} {a group-that-ends-alike} {a json-cut-short-after} " +
			"{a json-damaged-after} {a json-more-after} {a no-group-version} {a no-kind} " +
			"{a no-version} {a other-group} {a protobuf-broken}]",
		"v2": "[{ cluster-scoped} {a cbor}]",
	} {
		items, err := etcd.Count(t.Context(), openSnapshot(t, file, etcd.SnapshotOptions{Prefix: "kubernetes.io"}),
			[]etcd.Target{{Resource: widgets()}}, etcd.CountOptions{At: at})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(items[0].Found); got != names {
			t.Errorf("at %s: %s, want %s", at, got, names)
		}
	}
}

// TestStates: what the CRD says beside what etcd holds.
func TestStates(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	put(t, server.Client(),
		"/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com", `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1",
			"metadata":{"name":"widgets.example.com","uid":"1","annotations":{"crdver.dev/retired":"v1alpha1,v1alpha2","other":"x"}},
			"spec":{"group":"example.com","names":{"plural":"widgets","kind":"Widget"},"scope":"Namespaced","versions":[
				{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},{"name":"v1beta1","served":true},{"name":"v1beta2"}]},
			"status":{"storedVersions":["v1","v1beta2","v1beta2","v1alpha9"]}}`,
		"/registry/apiextensions.k8s.io/customresourcedefinitions/old.example.com", `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1",
			"metadata":{"name":"old.example.com"},"spec":{"group":"example.com","version":"v1","names":{"plural":"old","kind":"Old"}},"status":{"storedVersions":["v1"]}}`,
		"/registry/apiextensions.k8s.io/customresourcedefinitions/lies.example.com", `{"kind":"CustomResourceDefinition","metadata":{"name":"other.example.com"}}`,
		"/registry/apiextensions.k8s.io/customresourcedefinitions/broken.example.com", `{"spec":{"password":hunter2}}`,
		"/registry/apiextensions.k8s.io/customresourcedefinitions/secret.example.com", `k8s:enc:kms:v2:a:b`,
		"/registry/example.com/widgets/a/1", widget("v1"),
		"/registry/example.com/widgets/a/2", widget("v1beta1"),
		"/registry/example.com/widgets/a/3", widget("v1alpha1"),
		"/registry/example.com/widgets/a/4", widget("v1alpha1"),
	)
	snapshot := openSnapshot(t, save(t, server.Client()), etcd.SnapshotOptions{})
	definitions, err := etcd.ReadDefinitions(t.Context(), snapshot)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]etcd.UnreadableCRD{
		{Name: "broken.example.com", Reason: "it cannot be decoded (*json.SyntaxError)"},
		{Name: "lies.example.com", Reason: "it says that it is other.example.com"},
		{Name: "secret.example.com", Reason: "it is encrypted (kms)"},
	}, definitions.Unreadable); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(definitions.Items) != 2 || definitions.Items[0].Spec.Versions[0].Name != "v1" {
		t.Fatalf("%+v", definitions.Items)
	}
	if diff := cmp.Diff(map[string]string{"crdver.dev/retired": "v1alpha1,v1alpha2"}, definitions.Items[1].Annotations); diff != "" {
		t.Errorf("annotations, -want +got:\n%s", diff)
	}
	items, err := etcd.Count(t.Context(), snapshot, []etcd.Target{etcd.TargetOf(definitions.Items[1]), {Resource: schema.GroupResource{Group: "a", Resource: "b"}}}, etcd.CountOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]v1alpha1.StoredCount{
		{Version: "v1", Objects: 1, State: v1alpha1.StoredCurrent},
		{Version: "v1beta2", Objects: 0, State: v1alpha1.StoredListed},
		{Version: "v1beta1", Objects: 1, State: v1alpha1.StoredUnlisted},
		{Version: "v1alpha9", Objects: 0, State: v1alpha1.StoredUnreadable},
		{Version: "v1alpha1", Objects: 2, State: v1alpha1.StoredUnreadable},
	}, items[0].Stored); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if items[1].Objects != 0 || len(items[1].Stored) != 0 {
		t.Errorf("%+v", items[1])
	}
}

// TestNamespaces: those that are in etcd, whatever their names and the API server's
// prefix.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	put(t, server.Client(),
		"/registry/namespaces/team-a", "k8s\x00...",
		"/registry/namespaces/gone", "k8s\x00...",
		"/registry/services/endpoints/team-b/x", "k8s\x00...",
		"/registry/pods/team-c/x", "k8s\x00...",
		"/kubernetes.io/namespaces/team-d", "k8s\x00...",
	)
	if _, err := server.Client().Delete(t.Context(), "/registry/namespaces/gone"); err != nil {
		t.Fatal(err)
	}
	for _, source := range []etcd.Source{
		openSnapshot(t, save(t, server.Client()), etcd.SnapshotOptions{}),
		openLive(t, etcd.LiveOptions{Endpoints: []string{server.Endpoint()}}),
	} {
		for name, want := range map[string]bool{"team-a": true, "team": false, "team-aa": false, "gone": false, "team-b": false, "team-c": false, "team-d": false} {
			if got, err := etcd.HasNamespace(t.Context(), source, name); err != nil || got != want {
				t.Errorf("%T, %s: %v, %v", source, name, got, err)
			}
		}
	}
}

// TestCopyOfADatabase: the database of an etcd that was stopped has no checksum.
func TestCopyOfADatabase(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	putMany(t, server.Client(), 300)
	data, err := os.ReadFile(save(t, server.Client()))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(name, data[:len(data)-32], 0o400); err != nil {
		t.Fatal(err)
	}
	snapshot := openSnapshot(t, name, etcd.SnapshotOptions{})
	if got := snapshot.Describe().Checksum; got != etcd.ChecksumNone {
		t.Errorf("the checksum is %q", got)
	}
	wantCounts(t, snapshot, widgets(), "v1: 270, v1beta1: 30")
}

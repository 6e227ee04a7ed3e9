package etcd_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/crdver/kubectl-crdver/pkg/etcd"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

var update = flag.Bool("update", false, "save the sample snapshot anew")

// TestSample reads the snapshot that the README and the goldens show. With
// -update it is saved anew, from an API server.
func TestSample(t *testing.T) {
	t.Parallel()
	const name = "../../testdata/etcd/snapshot.db"
	if *update {
		saveSample(t, name)
	}
	snapshot := openSnapshot(t, name, etcd.SnapshotOptions{})
	definitions, err := etcd.ReadDefinitions(t.Context(), snapshot)
	if err != nil || len(definitions.Items) != 4 {
		t.Fatalf("%+v, %v", definitions, err)
	}
	for crd, want := range map[string]string{
		testbed.CronTabCRD:    "v1: 7, v1beta1: 5",
		"backups.example.com": "v1: 1, v1alpha1: 2",
		"vaults.example.com":  "v1: 1, encrypted aescbc: 3, undecodable: 1",
		"gadgets.example.com": "v1: 2, v1beta1: 0",
	} {
		items, err := etcd.Count(t.Context(), snapshot, []etcd.Target{etcd.TargetOf(definitions.Get(crd))}, etcd.CountOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := inWords(items[0].Stored); got != want {
			t.Errorf("%s: %s, want %s", crd, got, want)
		}
	}
}

func saveSample(t *testing.T, name string) {
	t.Helper()
	bed, err := testbed.StartInProcess(t.Context(), testbed.InProcessOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Stop)
	trimTooEarly(t, bed)
	// What an API server would no longer do by itself.
	putCRD(t, bed.Etcd(), "backups", "Backup", []string{"v1"}, "v1")
	putCRD(t, bed.Etcd(), "vaults", "Vault", []string{"v1"}, "v1")
	putCRD(t, bed.Etcd(), "gadgets", "Gadget", []string{"v1", "v1beta1"}, "v1", "v1beta1")
	value := func(kind, version string) string {
		return fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"%s","metadata":{}}`, version, kind)
	}
	put(t, bed.Etcd(),
		"/registry/example.com/backups/default/monday", value("Backup", "v1alpha1"),
		"/registry/example.com/backups/default/tuesday", value("Backup", "v1alpha1"),
		"/registry/example.com/backups/default/wednesday", value("Backup", "v1"),
		"/registry/example.com/vaults/default/plain", value("Vault", "v1"),
		"/registry/example.com/vaults/default/a", "k8s:enc:aescbc:v1:key1:\x00\x01",
		"/registry/example.com/vaults/default/b", "k8s:enc:aescbc:v1:key1:\x00\x01",
		"/registry/example.com/vaults/team-a/c", "k8s:enc:aescbc:v1:key1:\x00\x01",
		"/registry/example.com/vaults/team-a/damaged", "\x00\x00\x00\x00",
		"/registry/example.com/gadgets/default/a", value("Gadget", "v1"),
		"/registry/example.com/gadgets/default/b", value("Gadget", "v1"),
	)
	now, err := bed.Etcd().Get(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bed.Etcd().Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := bed.Etcd().Defragment(t.Context(), bed.EmbeddedEtcd().Endpoint()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(save(t, bed.Etcd()))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// trimTooEarly makes CronTabs at two versions, and takes the older one off the list.
func trimTooEarly(t *testing.T, bed *testbed.InProcess) {
	t.Helper()
	if _, err := testbed.CreateCRD(t.Context(), bed.Config(), testbed.CronTabs("v1beta1", "v1")); err != nil {
		t.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(bed.Config()).Resource(testbed.CronTabResource("v1"))
	create := func(first, n int) {
		for i := first; i < first+n; i++ {
			namespace := []string{"default", "team-a", "team-b"}[i%3]
			if _, err := client.Namespace(namespace).Create(t.Context(), testbed.NewCronTab("v1", namespace, fmt.Sprintf("cron-%02d", i), i), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	create(0, 5)
	if _, err := testbed.UpdateCRD(t.Context(), bed.Config(), testbed.CronTabCRD, func(crd *apiextensionsv1.CustomResourceDefinition) {
		testbed.SetStorageVersion(crd, "v1")
	}); err != nil {
		t.Fatal(err)
	}
	if err := testbed.WaitForStorageVersion(t.Context(), bed, testbed.CronTabResource("v1"), testbed.NewCronTab("v1", "default", "probe", 0), "v1"); err != nil {
		t.Fatal(err)
	}
	create(5, 7)
	if _, err := clientset.NewForConfigOrDie(bed.Config()).ApiextensionsV1().CustomResourceDefinitions().Patch(t.Context(), testbed.CronTabCRD,
		types.MergePatchType, []byte(`{"status":{"storedVersions":["v1"]}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// putCRD writes a CRD into etcd, past the API server.
func putCRD(t *testing.T, client *clientv3.Client, plural, kind string, versions []string, stored ...string) {
	t.Helper()
	crd := apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com", UID: types.UID(plural)},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: stored},
	}
	for i, name := range versions {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: i == 0})
	}
	value, err := json.Marshal(crd)
	if err != nil {
		t.Fatal(err)
	}
	put(t, client, "/registry/apiextensions.k8s.io/customresourcedefinitions/"+crd.Name, string(value))
}

package etcd_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/etcd"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// widgets is the resource of tests that write into etcd themselves.
func widgets() schema.GroupResource {
	return schema.GroupResource{Group: "example.com", Resource: "widgets"}
}

func startEtcd(t testing.TB) *testbed.EmbeddedEtcd {
	t.Helper()
	if testing.Short() {
		t.Skip("starts an etcd")
	}
	server, err := testbed.StartEtcd(t.Context(), testbed.EtcdOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// put writes keys and values, one after the other.
func put(t testing.TB, client *clientv3.Client, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if _, err := client.Put(t.Context(), pairs[i], pairs[i+1]); err != nil {
			t.Fatal(err)
		}
	}
}

// widget is a value as the API server writes it.
func widget(version string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Widget","metadata":{"name":"a"},"spec":{"password":"hunter2"}}`, version)
}

// putMany writes n objects, most of them at v1, and every tenth at v1beta1.
func putMany(t testing.TB, client *clientv3.Client, n int) {
	t.Helper()
	const batch = 100
	for i := 0; i < n; i += batch {
		var ops []clientv3.Op
		for j := i; j < min(n, i+batch); j++ {
			version := "v1"
			if j%10 == 0 {
				version = "v1beta1"
			}
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("/registry/example.com/widgets/ns%d/w%d", j%7, j), widget(version)))
		}
		if _, err := client.Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
}

// save does what "etcdctl snapshot save" does.
func save(t testing.TB, client *clientv3.Client) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "snapshot.db")
	if err := testbed.SaveSnapshot(t.Context(), client, name); err != nil {
		t.Fatal(err)
	}
	return name
}

func openSnapshot(t testing.TB, file string, options etcd.SnapshotOptions) *etcd.Snapshot {
	t.Helper()
	snapshot, err := etcd.OpenSnapshot(t.Context(), file, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := snapshot.Close(); err != nil {
			t.Error(err)
		}
	})
	return snapshot
}

func openLive(t testing.TB, options etcd.LiveOptions) *etcd.Live {
	t.Helper()
	live, err := etcd.OpenLive(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = live.Close() })
	return live
}

// counts returns what a source holds of one resource, as "v1: 3, encrypted aescbc: 1".
func counts(ctx context.Context, source etcd.Source, resource schema.GroupResource) (string, error) {
	items, err := etcd.Count(ctx, source, []etcd.Target{{Resource: resource}}, etcd.CountOptions{})
	if err != nil {
		return "", err
	}
	return inWords(items[0].Stored), nil
}

func inWords(counts []v1alpha1.StoredCount) string {
	var words []string
	for _, count := range counts {
		what := count.Version
		switch {
		case count.Undecodable:
			what = "undecodable"
		case count.Encrypted != "":
			what = "encrypted " + count.Encrypted
		}
		words = append(words, fmt.Sprintf("%s: %d", what, count.Objects))
	}
	return strings.Join(words, ", ")
}

func wantCounts(t *testing.T, source etcd.Source, resource schema.GroupResource, want string) {
	t.Helper()
	got, err := counts(t.Context(), source, resource)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

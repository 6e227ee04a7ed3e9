package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// handMade saves a snapshot of an etcd with these keys and values.
func handMade(t *testing.T, pairs map[string]string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts an etcd")
	}
	server, err := testbed.StartEtcd(t.Context(), testbed.EtcdOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	for key, value := range pairs {
		if _, err := server.Client().Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(t.TempDir(), "snapshot.db")
	if err := testbed.SaveSnapshot(t.Context(), server.Client(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// definitionKey is where the CRD of a resource of example.com is.
func definitionKey(plural string) string {
	return "/registry/apiextensions.k8s.io/customresourcedefinitions/" + plural + ".example.com"
}

// definition is the value there.
func definition(plural, scope, annotations string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
		"metadata":{"name":"%[1]s.example.com","uid":"%[1]s","annotations":{%[3]s}},
		"spec":{"group":"example.com","scope":"%[2]s","names":{"plural":"%[1]s","kind":"%[1]s"},"versions":[
			{"name":"v1","served":true,"storage":true},{"name":"v1beta1","served":true}]},
		"status":{"storedVersions":["v1"]}}`, plural, scope, annotations)
}

func stored(version string) string {
	return fmt.Sprintf(`{"apiVersion":"%s","kind":"Any","metadata":{}}`, version)
}

// TestStoredInANamespace: that nothing is stored at a version in a namespace is an
// answer only where there is the namespace, and objects can be in it.
func TestStoredInANamespace(t *testing.T) {
	t.Parallel()
	snapshot := handMade(t, map[string]string{
		definitionKey("gadgets"):                      definition("gadgets", "Namespaced", `"crdver.dev/retired":"v1alpha1"`),
		definitionKey("widgets"):                      definition("widgets", "Namespaced", ""),
		definitionKey("planets"):                      definition("planets", "Cluster", ""),
		"/registry/namespaces/empty":                  "k8s\x00",
		"/registry/namespaces/team-a":                 "k8s\x00",
		"/registry/example.com/gadgets/team-a/old":    stored("example.com/v1beta1"),
		"/registry/example.com/widgets/no-key/a":      stored("example.com/v1"),
		"/registry/example.com/planets/earth":         stored("example.com/v1beta1"),
		"/registry/example.com/orphans/team-a/orphan": stored("example.com/v1"),
	})
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"gadgets --at v1beta1 -n team-a", 2, ""},
		{"gadgets --at v1beta1 -n empty", 0, "No object in the namespace empty is known to be stored at v1beta1\n"},
		{"gadgets --at v1beta1 -n team-b", 1, "there is no namespace team-b in etcd, below /registry, and no object in it"},
		{"gadgets -n team-b", 1, "there is no namespace team-b in etcd"},
		{"-n team-b", 1, "there is no namespace team-b in etcd"},
		{"widgets --at v1beta1 -n no-key", 0, "No object in the namespace no-key is known"}, // A snapshot may be of a part.
		{"planets --at v1beta1 -n team-a", 1, "the objects of planets.example.com are in no namespace: --namespace does not fit"},
		{"gadgets planets -n team-a", 1, "the objects of planets.example.com are in no namespace"},
		{"--at v1beta1 -n empty", 0, "No object in the namespace empty"}, // planets, which was not named, is left out.
		{"orphans.example.com -n empty", 1, "neither a CRD orphans.example.com nor objects of it in the namespace empty"},
		{"gadgets --at v1beta1 --namespace=", 1, "--namespace is empty"},
		{"gadgets --at v1alpha1", 0, "No object is known to be stored at v1alpha1\n"}, // A version that was retired.
		{"widgets --at v1alpha1", 1, "does not have, and etcd has no object of it at,"},
	} {
		got := execute(t.Context(), neverRead{t}, append([]string{"stored", "--etcd-snapshot", snapshot}, strings.Fields(test.args)...)...)
		if got.code != test.code || !strings.Contains(got.stderr, test.says) || test.code == 1 && got.stdout != "" {
			t.Errorf("stored %s: want exit code %d and %q, got %s", test.args, test.code, test.says, got)
		}
	}
}

// TestStoredWithoutDefinitions: where a CRD cannot be read nobody knows which version
// is right for its objects, and that is not the answer that all is well.
func TestStoredWithoutDefinitions(t *testing.T) {
	t.Parallel()
	snapshot := handMade(t, map[string]string{
		definitionKey("gadgets"):            definition("gadgets", "Namespaced", ""),
		definitionKey("secrets"):            "k8s:enc:kms:v2:name:\x00",
		definitionKey("damaged"):            `{"metadata":`,
		"/registry/example.com/gadgets/a/1": stored("example.com/v1"),
		"/registry/example.com/secrets/a/1": stored("example.com/v1"),
	})
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"", 2, "a CRD in etcd could not be read: secrets.example.com: it is encrypted (kms)"},
		{"", 2, "a CRD in etcd could not be read: damaged.example.com: it cannot be decoded"},
		{"secrets.example.com", 2, "could not be read: secrets.example.com"},
		{"damaged.example.com", 2, "could not be read: damaged.example.com"}, // Without objects, too.
		{"gadgets", 0, "checksum verified\n"},
		// The values of objects tell their versions all the same.
		{"secrets.example.com --at v1", 2, ""},
		{"secrets.example.com --at v1beta1", 0, "No object is known to be stored at v1beta1"},
	} {
		got := execute(t.Context(), neverRead{t}, append([]string{"stored", "--etcd-snapshot", snapshot}, strings.Fields(test.args)...)...)
		if got.code != test.code || !strings.Contains(got.stderr, test.says) {
			t.Errorf("stored %s: want exit code %d and %q, got %s", test.args, test.code, test.says, got)
		}
		if test.args == "gadgets" && strings.Contains(got.stderr, "could not be read") {
			t.Errorf("of a CRD that nobody asked for: %s", got)
		}
	}
}

// TestStoredAtAnotherGroup: an object whose apiVersion is of another group, or of the
// core group, is at no version of the CRD.
func TestStoredAtAnotherGroup(t *testing.T) {
	t.Parallel()
	snapshot := handMade(t, map[string]string{
		definitionKey("gadgets"):                definition("gadgets", "Namespaced", ""),
		"/registry/example.com/gadgets/a/right": stored("example.com/v1"),
		"/registry/example.com/gadgets/a/core":  stored("v1"),
		"/registry/example.com/gadgets/a/other": stored("other.io/v1"),
	})
	got := execute(t.Context(), neverRead{t}, "stored", "gadgets", "--etcd-snapshot", snapshot)
	if got.code != 2 || !strings.Contains(got.stderr, "gadgets.example.com: 2 objects cannot be decoded") || strings.Contains(got.stderr, "restore") {
		t.Errorf("%s", got)
	}
	got = execute(t.Context(), neverRead{t}, "stored", "gadgets", "--at", "undecodable", "-o", "name", "--etcd-snapshot", snapshot)
	if got.code != 2 || got.stdout != "gadgets.example.com/a/core\ngadgets.example.com/a/other\n" {
		t.Errorf("%s", got)
	}
}

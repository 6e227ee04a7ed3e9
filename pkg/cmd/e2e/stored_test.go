package e2e_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

const storedGroup = "stored.example.com"

// snapshot saves a snapshot of the bed's etcd.
func (b *bed) snapshot(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "snapshot.db")
	if err := testbed.SaveSnapshot(t.Context(), b.Etcd(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// trimmedTooEarly makes objects at v1beta1 of a CRD whose storage version is v1 and
// that no longer lists v1beta1.
func (b *bed) trimmedTooEarly(t *testing.T, group string, n int) string {
	t.Helper()
	name := b.createCRD(t, crontabs(group, "v1beta1", "v1"))
	b.createObjects(t, group, "v1", n, "a", "b")
	b.updateCRD(t, name, func(crd *apiextensionsv1.CustomResourceDefinition) { testbed.SetStorageVersion(crd, "v1") })
	b.patchStored(t, name, "v1")
	return name
}

// stored runs the command and returns its document.
func (b *bed) stored(t *testing.T, code int, args ...string) v1alpha1.StoredReport {
	t.Helper()
	got := b.must(t, code, append([]string{"stored", "-o", "json"}, args...)...)
	var report v1alpha1.StoredReport
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
		t.Fatalf("%v\n%s", err, got)
	}
	return report
}

// TestStored: what the command counts is what is in etcd, from a snapshot and from
// the etcd itself, before and after a migration; a snapshot does not change.
func TestStored(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	endpoint := b.EmbeddedEtcd().Endpoint()
	name := b.trimmedTooEarly(t, storedGroup, 20)
	snapshot := b.snapshot(t)
	for _, from := range [][]string{{"--etcd-endpoints", endpoint}, {"--etcd-snapshot", snapshot}} {
		for _, named := range []string{name, "crd/" + name, "CronTab", "ct"} {
			report := b.stored(t, 2, append(from, named)...)
			truth, err := testbed.CountByVersion(t.Context(), b.Etcd(), storedGroup, testbed.CronTabPlural)
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Items) != 1 || report.Summary.Unlisted != 20 || truth["v1beta1"] != 20 || report.Items[0].StorageVersion != "v1" {
				t.Errorf("%v: %+v, in etcd %v", from, report, truth)
			}
		}
	}
	if got := b.must(t, 2, "stored", name, "--at", "v1beta1", "-o", "name", "--etcd-endpoints", endpoint); strings.Count(got.stdout, name+"/a/") != 10 || strings.Contains(got.String(), "* * *") {
		t.Errorf("%s", got)
	}
	b.must(t, 0, "migrate", name, "--yes", "--etcd-endpoints", endpoint)
	b.wantStored(t, storedGroup, map[string]int{"v1": 20})
	if report := b.stored(t, 0, "--etcd-endpoints", endpoint); report.Summary.Current != 20 {
		t.Errorf("%+v", report.Summary)
	}
	if report := b.stored(t, 2, "--etcd-snapshot", snapshot); report.Summary.Unlisted != 20 {
		t.Errorf("%+v", report.Summary)
	}
	b.must(t, 0, "stored", "--at", "v1beta1", "--etcd-endpoints", endpoint)
	b.must(t, 124, "stored", "--timeout", "1ns", "--etcd-endpoints", endpoint)
}

// TestValidateWithEtcd: what etcd holds is a finding, on a cluster and for a
// manifest; an etcd of another cluster is not believed.
func TestValidateWithEtcd(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.trimmedTooEarly(t, storedGroup, 3)
	snapshot := b.snapshot(t)
	for _, from := range [][]string{{"--etcd-endpoints", b.EmbeddedEtcd().Endpoint()}, {"--etcd-snapshot", snapshot}} {
		got := b.must(t, 2, append([]string{"validate", name, "-o", "yaml"}, from...)...)
		var report v1alpha1.ValidationReport
		if err := yaml.Unmarshal([]byte(got.stdout), &report); err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, finding := range report.Findings {
			if finding.Rule == "stored-version-unclaimed" && finding.Version == "v1beta1" && strings.Contains(finding.Message, "holds 3 objects at v1beta1") {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%v: %s", from, got)
		}
	}
	// A release that drops the version.
	manifest := b.manifest(t, name, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions = crd.Spec.Versions[1:]
	})
	got := execute(t.Context(), neverRead{t}, "validate", "-f", manifest, "--etcd-snapshot", snapshot)
	if got.code != 2 || !strings.Contains(got.stdout, "holds 3 objects at v1beta1, which spec.versions does not have") {
		t.Errorf("%s", got)
	}
	// One that was never applied, which is no finding.
	fresh := b.manifest(t, name, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Group = "fresh.example.com"
		crd.Name = "crontabs.fresh.example.com"
	})
	if got := execute(t.Context(), neverRead{t}, "validate", "-f", fresh, "--rules", "stored-version-unclaimed", "--fail-on", "info", "--etcd-snapshot", snapshot); got.code != 0 {
		t.Errorf("%s", got)
	}
	// The same names on another cluster.
	other := start(t, testbed.InProcessOptions{})
	other.trimmedTooEarly(t, storedGroup, 1)
	if got := other.must(t, 0, "validate", name, "--rules", "stored-version-unclaimed", "--etcd-snapshot", snapshot); !strings.Contains(got.stdout, "it is of another cluster") {
		t.Errorf("%s", got)
	}
	if got := other.must(t, 1, "migrate", name, "--yes", "--etcd-snapshot", snapshot); !strings.Contains(got.stderr, "it is of another cluster") {
		t.Errorf("%s", got)
	}
}

// TestEtcdDisagrees: an etcd that holds an object at the old version after the
// verify pass keeps the list from being trimmed, and the version from being removed.
func TestEtcdDisagrees(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.scene(t, storedGroup, 5)
	// An etcd with the same CRD, whose objects nobody rewrites.
	other, err := testbed.StartEtcd(t.Context(), testbed.EtcdOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Stop)
	all, err := b.Etcd().Get(t.Context(), "/registry/apiextensions.k8s.io/customresourcedefinitions/"+name)
	if err != nil || len(all.Kvs) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	stale := fmt.Sprintf(`{"apiVersion":"%s/v1beta1","kind":"CronTab"}`, storedGroup)
	for key, value := range map[string]string{string(all.Kvs[0].Key): string(all.Kvs[0].Value), "/registry/" + storedGroup + "/crontabs/a/left": stale} {
		if _, err := other.Client().Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	got := b.must(t, 3, "promote", "v1", name, "--yes", "--etcd-endpoints", other.Endpoint())
	if !strings.Contains(got.stderr, "holds no object at another version") || !strings.Contains(got.stderr, "etcd holds 1 object at v1beta1, although the verify pass found none") {
		t.Errorf("%s", got)
	}
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1beta1", "v1"})

	// Nor is it trimmed by way of a saved plan that knew of no etcd.
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	b.must(t, 0, "migrate", name, "--plan-out", plan)
	got = b.must(t, 3, "apply", "-f", plan, "--yes", "--etcd-endpoints", other.Endpoint())
	if !strings.Contains(got.stderr, "("+other.Endpoint()+") holds no object at another version") || !strings.Contains(got.stderr, "etcd holds 1 object at v1beta1, although the verify pass found none") {
		t.Errorf("%s", got)
	}
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1beta1", "v1"})

	// The etcd of the cluster agrees, by way of a saved plan, too, which says so.
	b.must(t, 0, "retire", "v1beta1", name, "--plan-out", plan, "--etcd-endpoints", b.EmbeddedEtcd().Endpoint())
	if got := b.must(t, 3, "apply", "-f", plan, "--yes"); !strings.Contains(got.stderr, "pass --etcd-endpoints") {
		t.Errorf("%s", got)
	}
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1beta1", "v1"})
	b.must(t, 0, "apply", "-f", plan, "--yes", "--etcd-endpoints", b.EmbeddedEtcd().Endpoint())
	b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
}

// TestEtcdUnreadable: objects of a version that is gone block a migration where
// etcd says so, and are a warning where a snapshot does.
func TestEtcdUnreadable(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.scene(t, storedGroup, 2)
	objects, err := testbed.Stored(t.Context(), b.Etcd(), storedGroup, testbed.CronTabPlural)
	if err != nil {
		t.Fatal(err)
	}
	// All of the object: the API server, which watches, falls over one without metadata.
	old := strings.ReplaceAll(string(objects[0].Raw), storedGroup+"/v1beta1", storedGroup+"/v1alpha1")
	if _, err := b.Etcd().Put(t.Context(), objects[0].Key, old); err != nil {
		t.Fatal(err)
	}
	const message = "holds 1 object at v1alpha1, which spec.versions does not have"
	got := b.must(t, 3, "retire", "v1alpha1", name, "--dry-run=client", "--etcd-endpoints", b.EmbeddedEtcd().Endpoint())
	if !strings.Contains(got.stdout, message) || !strings.Contains(got.stdout, "restore v1alpha1") {
		t.Errorf("%s", got)
	}
	plan := b.run(t, "promote", "v1", name, "--dry-run=client", "-o", "json", "--etcd-snapshot", b.snapshot(t))
	var made v1alpha1.Plan
	if err := json.Unmarshal([]byte(plan.stdout), &made); err != nil || !strings.Contains(strings.Join(made.Warnings, "\n"), message) {
		t.Errorf("%v\n%s", err, plan)
	}
}

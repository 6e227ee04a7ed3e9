//go:build controlplane

package fulltest_test

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// testProof has an in-tree migration trim the list of objects that it left behind. A
// complete run proves the list, and the proof lasts until a second in-tree migration
// does that again.
func testProof(t *testing.T, _ *testbed.Full, s *subject) {
	thaw := s.failSVM(t, "proof-failed")
	s.run(t, "status", s.name).want(t, 0, "Trusted:      no: ", "StorageVersionMigration proof-failed failed")
	s.run(t, "validate", s.name).want(t, 0, "[storage-migrating]", "[stored-versions-untrusted]")
	thaw(t)
	s.needsPatch(t)
	generation := s.crd(t).Generation
	s.run(t, "migrate", s.name, "--yes").want(t, 0, "note in the CRD that every object is stored at v1")
	s.stored(t, map[string]int{"v1": 3})
	if c := s.crd(t); c.Generation != generation || c.Annotations[lifecycle.VerifiedAnnotation] == "" {
		t.Errorf("generation %d, it was %d; annotations %v", c.Generation, generation, c.Annotations)
	}
	s.run(t, "status", s.name).want(t, 0, "Trusted:      yes: proven by kubectl crdver at ", "and the spec has not changed since")
	s.run(t, "can-remove", "v1beta1", s.name, "--skip-usage").want(t, 2, "no (verified)")
	s.run(t, "validate", s.name).lacks(t, "storage-migrating", "stored-versions-untrusted")
	before := s.snapshot(t)
	s.run(t, "migrate", s.name, "--yes").want(t, 0, "unchanged")
	s.unwritten(t, before)

	// The spec changes: then it counts that nobody has written the list.
	s.run(t, "deprecate", "v1beta1", s.name, "--yes").want(t, 0)
	s.run(t, "status", s.name).want(t, 0, "Trusted:      yes: proven by kubectl crdver at ", "nobody has written status.storedVersions since")

	// Back to v1beta1, an object, forth to v1, and a migration that rewrites nothing.
	change := func(version string) {
		t.Helper()
		_, err := testbed.UpdateCRD(t.Context(), s.bed.Config(), s.name, func(c *apiextensionsv1.CustomResourceDefinition) {
			testbed.SetStorageVersion(c, version)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	change("v1beta1")
	if err := testbed.WaitForStorageVersion(t.Context(), s.bed, s.at("v1beta1"), s.object("v1beta1", "default", "probe", 0), "v1beta1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.objects(t, "v1beta1", "default").Create(t.Context(), s.object("v1beta1", "default", "late", 9), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.flip(t)
	s.stored(t, map[string]int{"v1": 3, "v1beta1": 1})
	thaw = s.freezeWrites(t, "proof-second", "late")
	s.inTree(t, "proof-second")
	s.inTreeEnds(t, "proof-second", storagemigrationv1.MigrationFailed)
	eventually(t, "the second migration trims storedVersions", migrationLimit, func() bool {
		return fmt.Sprint(s.crd(t).Status.StoredVersions) == "[v1]"
	})
	s.stored(t, map[string]int{"v1": 3, "v1beta1": 1})
	s.run(t, "status", s.name).want(t, 0, "Trusted:      no: ", "may have changed since")
	s.run(t, "can-remove", "v1beta1", s.name, "--skip-usage").want(t, 2, "cannot be trusted")
	thaw(t)
	s.run(t, "migrate", s.name, "--yes").want(t, 0, "note in the CRD that every object is stored at v1")
	s.stored(t, map[string]int{"v1": 4})
	s.run(t, "status", s.name).want(t, 0, "Trusted:      yes: proven by kubectl crdver at ")
}

// needsPatch has somebody migrate who may not write the annotation.
func (s *subject) needsPatch(t *testing.T) {
	t.Helper()
	all := rights(s.group)
	missing := "patch " + crds
	delete(all, missing)
	rules := []rbacv1.PolicyRule{rule("storagemigration.k8s.io", "storageversionmigrations", "list")}
	for _, one := range all {
		rules = append(rules, one)
	}
	config, err := s.bed.User(t.Context(), "may-not-note", rules...)
	if err != nil {
		t.Fatal(err)
	}
	before, kubeconfig := s.snapshot(t), kubeconfigOf(t, config)
	s.runAs(t, kubeconfig, "migrate", s.name, "--yes").want(t, 3, "you lack permissions that the plan needs", missing+"."+apiextensions+" "+s.name)
	s.unwritten(t, before)
}

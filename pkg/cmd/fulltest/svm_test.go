//go:build controlplane

package fulltest_test

import (
	"fmt"
	"testing"
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// migrationLimit bounds the wait for an in-tree migration: the controller learns
// of new resources every 30 seconds.
const migrationLimit = 90 * time.Second

// inTreeScenarios returns those that run at the same time, and the one that has
// to be alone afterwards. A migration takes 80 seconds to fail.
func inTreeScenarios() (together, alone []scenario) {
	var thaw func(*testing.T)
	var rescued *subject
	together = []scenario{
		{name: "failed in-tree migration", prepare: prepareSVM("svm-failed.example.com"), run: testFailedSVM},
		{name: "proof", prepare: prepareSVM("svm-proof.example.com"), run: testProof},
		{name: "second in-tree migration", prepare: prepareSVM("svm-second.example.com"), run: testSecondSVM},
		{name: "prepare the rescue", prepare: prepareSVM("svm-rescue.example.com"), run: func(t *testing.T, _ *testbed.Full, s *subject) {
			thaw, rescued = s.failSVM(t, "svm-rescue"), s
		}},
	}
	together = append(together, engineScenarios()...)
	alone = []scenario{{name: "rescue", run: func(t *testing.T, _ *testbed.Full, _ *subject) {
		if rescued == nil {
			t.Fatal("there is nothing to rescue")
		}
		testRescue(t, rescued, thaw)
	}}}
	return together, alone
}

// prepareSVM makes the CRD with three objects at v1beta1.
func prepareSVM(group string) func(*testing.T, *testbed.Full) *subject {
	return func(t *testing.T, bed *testbed.Full) *subject {
		return newSubject(t, bed, group, 3, "v1beta1", "v1")
	}
}

// flip makes v1 the storage version by hand and waits until it is.
func (s *subject) flip(t *testing.T) {
	t.Helper()
	_, err := testbed.UpdateCRD(t.Context(), s.bed.Config(), s.name, func(crd *apiextensionsv1.CustomResourceDefinition) {
		testbed.SetStorageVersion(crd, "v1")
	})
	if err != nil {
		t.Fatal(err)
	}
	probe := s.object("v1", "default", "probe", 0)
	if err := testbed.WaitForStorageVersion(t.Context(), s.bed, s.at("v1"), probe, "v1"); err != nil {
		t.Fatal(err)
	}
}

// inTree creates a StorageVersionMigration of the CRD.
func (s *subject) inTree(t *testing.T, name string) {
	t.Helper()
	migration := &storagemigrationv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagemigrationv1.StorageVersionMigrationSpec{
			Resource: metav1.GroupResource{Group: s.group, Resource: testbed.CronTabPlural},
		},
	}
	_, err := kubeClient(t, s.bed).StoragemigrationV1().StorageVersionMigrations().Create(t.Context(), migration, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// inTreeEnds waits until a StorageVersionMigration has a condition.
func (s *subject) inTreeEnds(t *testing.T, name string, want storagemigrationv1.MigrationConditionType) {
	t.Helper()
	migrations := kubeClient(t, s.bed).StoragemigrationV1().StorageVersionMigrations()
	begin := time.Now()
	eventually(t, fmt.Sprintf("migration %s is %s", name, want), migrationLimit, func() bool {
		migration, err := migrations.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, condition := range migration.Status.Conditions {
			if condition.Status == metav1.ConditionTrue && condition.Type == string(want) {
				t.Logf("%s is %s after %s: %s", name, want, time.Since(begin).Round(time.Millisecond), condition.Message)
				return true
			}
		}
		return false
	})
}

// failSVM makes an in-tree migration fail, with all objects still at v1beta1.
// They can be updated by dry run only, so that a rehearsal finds nothing.
func (s *subject) failSVM(t *testing.T, name string) (thaw func(*testing.T)) {
	t.Helper()
	s.flip(t)
	thaw = s.freezeWrites(t, name, "object-000002")
	s.inTree(t, name)
	s.inTreeEnds(t, name, storagemigrationv1.MigrationFailed)
	eventually(t, "the failed migration trims storedVersions", migrationLimit, func() bool {
		return fmt.Sprint(s.crd(t).Status.StoredVersions) == "[v1]"
	})
	return thaw
}

// freezeWrites refuses to update one object, except by dry run.
func (s *subject) freezeWrites(t *testing.T, name, object string) func(*testing.T) {
	t.Helper()
	probe := "has(object.metadata.labels) && 'probe' in object.metadata.labels"
	return s.freeze(t, name, fmt.Sprintf("object.metadata.name != '%s' || request.dryRun && !(%s)", object, probe), object)
}

// testFailedSVM: a failed migration has trimmed storedVersions although objects
// are still at v1beta1.
func testFailedSVM(t *testing.T, _ *testbed.Full, s *subject) {
	thaw := s.failSVM(t, "svm-failed")
	stored, err := testbed.CountByVersion(t.Context(), s.bed.Etcd(), s.group, testbed.CronTabPlural)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("after the failed migration, etcd has %v, storedVersions %v", stored, s.crd(t).Status.StoredVersions)
	if stored["v1beta1"] == 0 {
		t.Fatal("the failed migration left nothing at v1beta1: the test proves nothing")
	}

	r := s.run(t, "status", s.name)
	r.want(t, 0, "Trusted:      no: ", "MigrationFailed", "although it failed", "StorageVersionMigration svm-failed failed")
	if trust := s.status(t).StoredVersionsTrust; trust == nil || trust.Trusted {
		t.Errorf("status trusts: %+v", trust)
	}

	r = s.run(t, "retire", "v1beta1", s.name, "--yes")
	r.want(t, 4, "storedVersions cannot be trusted", "default/object-000002", "svm-failed", "not run: verify")
	s.stored(t, map[string]int{"v1": 2, "v1beta1": 1})
	if testbed.Version(s.crd(t), "v1beta1") == nil {
		t.Fatal("v1beta1 was removed")
	}
	s.run(t, "retire", "v1beta1", s.name, "--yes").want(t, 4, "default/object-000002")
	if testbed.Version(s.crd(t), "v1beta1") == nil {
		t.Fatal("v1beta1 was removed")
	}
	thaw(t)
	s.run(t, "retire", "v1beta1", s.name, "--yes").want(t, 0, "retired v1beta1")
	s.stored(t, map[string]int{"v1": 3})
	if testbed.Version(s.crd(t), "v1beta1") != nil {
		t.Error("v1beta1 was not removed")
	}
	s.listable(t)
}

// listable checks that the objects can be read.
func (s *subject) listable(t *testing.T) {
	t.Helper()
	list, err := s.objects(t, "v1", "").List(t.Context(), metav1.ListOptions{Limit: 100})
	if err != nil || len(list.Items) != 3 {
		t.Errorf("the objects cannot be read: %v", err)
	}
}

// testSecondSVM: the second migration of a CRD trims storedVersions when it
// starts.
func testSecondSVM(t *testing.T, _ *testbed.Full, s *subject) {
	s.inTree(t, "svm-first")
	s.inTreeEnds(t, "svm-first", storagemigrationv1.MigrationSucceeded)
	s.flip(t)
	if got := fmt.Sprint(s.crd(t).Status.StoredVersions); got != "[v1beta1 v1]" {
		t.Errorf("storedVersions %s", got)
	}
	thaw := s.freeze(t, "svm-second", "false", "object-000000")
	s.inTree(t, "svm-second")
	eventually(t, "the second migration trims storedVersions", migrationLimit, func() bool {
		return fmt.Sprint(s.crd(t).Status.StoredVersions) == "[v1]"
	})
	s.stored(t, map[string]int{"v1beta1": 3})
	r := s.run(t, "status", s.name)
	r.want(t, 0, "Trusted:      no: ", "2 StorageVersionMigrations ran")
	s.inTreeEnds(t, "svm-second", storagemigrationv1.MigrationFailed)

	// The in-tree controller may still be writing the CRD's conditions: what the
	// tool wrote shows in the objects.
	s.run(t, "retire", "v1beta1", s.name, "--yes").want(t, 3, "refuse to rewrite 3 of 3 objects", "svm-second")
	s.stored(t, map[string]int{"v1beta1": 3})
	thaw(t)
	s.run(t, "retire", "v1beta1", s.name, "--yes").want(t, 0, "retired v1beta1")
	s.stored(t, map[string]int{"v1": 3})
	s.listable(t)
}

// testRunningSVM: the controller takes a while to learn of the new resource; its
// migration is pending until then, and nobody else may migrate.
func testRunningSVM(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "svm-running.example.com", 3, "v1beta1", "v1")
	s.inTree(t, "svm-running")
	before := s.snapshot(t)
	r := s.run(t, "promote", "v1", s.name, "--yes")
	r.want(t, 3, "StorageVersionMigration svm-running is not finished", "kubectl delete storageversionmigration svm-running")
	s.run(t, "migrate", s.name, "--force", "--yes").want(t, 3, "svm-running is not finished")
	before.crd = s.crd(t).ResourceVersion // The controller may have added its condition.
	s.unwritten(t, before)
	if generation := s.crd(t).Generation; generation != 1 {
		t.Errorf("the spec was written: generation %d", generation)
	}
	err := kubeClient(t, bed).StoragemigrationV1().StorageVersionMigrations().Delete(t.Context(), "svm-running", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.run(t, "promote", "v1", s.name, "--yes").want(t, 0)
	s.stored(t, map[string]int{"v1": 3})
}

// testRescue: after a failed migration the version was dropped by hand. The
// objects that are still at it cannot be read until it is back.
func testRescue(t *testing.T, s *subject, thaw func(*testing.T)) {
	s.drop(t)
	eventually(t, "the objects cannot be read", 2*time.Minute, func() bool {
		_, err := s.objects(t, "v1", "default").Get(t.Context(), "object-000002", metav1.GetOptions{})
		return err != nil
	})
	r := s.run(t, "status", s.name)
	r.want(t, 0, "Trusted:      no: ", "kubectl crdver rescue "+s.name)
	r.lacks(t, "corrupt")
	s.run(t, "migrate", s.name, "--yes").want(t, 3, "kubectl crdver rescue "+s.name)
	// What made the migration fail stops the rescue, too, and the objects can be
	// read all the same.
	s.run(t, "rescue", s.name, "--yes").want(t, 4, "1 of 3 objects could not be rewritten")
	eventually(t, "the objects can be read again", 2*time.Minute, func() bool {
		list, err := s.objects(t, "v1", "").List(t.Context(), metav1.ListOptions{Limit: 100})
		return err == nil && len(list.Items) == 3
	})
	thaw(t)
	s.run(t, "rescue", s.name, "--yes").want(t, 0, "rescued")
	s.stored(t, map[string]int{"v1": 3})
	s.listable(t)
	s.run(t, "rescue", s.name, "--yes").want(t, 0, "Nothing to do")
}

// drop removes v1beta1 from spec.versions by hand.
func (s *subject) drop(t *testing.T) {
	t.Helper()
	crd := s.crd(t)
	for i, version := range crd.Spec.Versions {
		if version.Name == "v1beta1" {
			crd.Spec.Versions = append(crd.Spec.Versions[:i], crd.Spec.Versions[i+1:]...)
			break
		}
	}
	if _, err := s.crds(t).Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

//go:build controlplane

package fulltest_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// engineScenarios are those of --engine in-tree.
func engineScenarios() []scenario {
	return []scenario{
		{name: "engine in-tree", prepare: prepareSVM("engine-in-tree.example.com"), run: testEngineInTree},
		{name: "engine in-tree fails", prepare: prepareSVM("engine-fails.example.com"), run: testEngineFails},
		{name: "engine in-tree is the second", prepare: prepareSVM("engine-second.example.com"), run: testEngineSecond},
		{name: "engine in-tree killed", prepare: prepareSVM("engine-killed.example.com"), run: testEngineKilled},
		{name: "engine in-tree interrupted", prepare: prepareSVM("engine-interrupted.example.com"), run: testEngineInterrupted},
		{name: "engine in-tree killed, another version", prepare: prepareSVM("engine-another.example.com"), run: testEngineKilledBeforeAnother},
		{name: "somebody else's migration after the flip", prepare: prepareSVM("engine-trims.example.com"), run: testWaitForSVMThatTrims},
		{name: "somebody else's migration", prepare: prepareSVM("engine-waits.example.com"), run: testWaitForSVM},
	}
}

// svms returns the names of the StorageVersionMigrations of the subject.
func (s *subject) svms(t *testing.T) []string {
	t.Helper()
	list, err := kubeClient(t, s.bed).StoragemigrationV1().StorageVersionMigrations().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range list.Items {
		if one.Spec.Resource.Group == s.group {
			names = append(names, one.Name)
		}
	}
	return names
}

// honest watches, until the function that it returns is called, that
// storedVersions never claims less than what etcd holds for longer than it takes
// to put right, and returns how often the list had been trimmed.
func (s *subject) honest(t *testing.T) (stop func() int) {
	t.Helper()
	over, done, trims := make(chan struct{}), make(chan struct{}), 0
	go func() {
		defer close(done)
		var since time.Time
		for {
			select {
			case <-over:
				return
			case <-time.After(100 * time.Millisecond):
			}
			stored, err := testbed.CountByVersion(t.Context(), s.bed.Etcd(), s.group, testbed.CronTabPlural)
			if err != nil {
				continue
			}
			crd, err := s.crds(t).Get(t.Context(), s.name, metav1.GetOptions{})
			if err != nil {
				continue
			}
			lies := slices.ContainsFunc([]string{"v1beta1", "v1"}, func(version string) bool {
				return stored[version] > 0 && !slices.Contains(crd.Status.StoredVersions, version)
			})
			switch {
			case !lies:
				since = time.Time{}
			case since.IsZero():
				since = time.Now()
				trims++
			case time.Since(since) > 5*time.Second:
				t.Errorf("storedVersions is %v for 5s, and etcd has %v", crd.Status.StoredVersions, stored)
				return
			}
		}
	}()
	return func() int {
		close(over)
		<-done
		return trims
	}
}

// testEngineInTree promotes with the server's own migration, and finds nothing
// left: in etcd, in the list, and of what it made.
func testEngineInTree(t *testing.T, _ *testbed.Full, s *subject) {
	r := s.run(t, "promote", "v1", s.name, "--engine", "in-tree", "--yes", "-o", "json")
	r.want(t, 0, "crdver-crontabs-", "succeeded", "put back [v1beta1 v1]")
	report := decode[v1alpha1.Report](t, r)
	if report.Evidence == nil || !report.Evidence.Complete || report.Evidence.Objects.Rewritten != 0 || report.Evidence.Passes != 1 {
		t.Errorf("the server did not do the work: %+v", report.Evidence)
	}
	s.stored(t, map[string]int{"v1": 3})
	if got := fmt.Sprint(s.crd(t).Status.StoredVersions); got != "[v1]" {
		t.Errorf("storedVersions %s", got)
	}
	if left := s.svms(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if trust := s.status(t).StoredVersionsTrust; trust == nil || !trust.Trusted {
		t.Errorf("status does not trust the proof: %+v", trust)
	}
	before := s.snapshot(t)
	s.run(t, "promote", "v1", s.name, "--engine", "in-tree", "--yes").want(t, 0, "unchanged")
	s.unwritten(t, before)
	s.run(t, "retire", "v1beta1", s.name, "--yes").want(t, 0, "retired v1beta1")
	s.listable(t)
}

// testEngineFails has a migration that fails: what it trimmed is put back, the
// rest of the objects is rewritten, and the next run finishes.
func testEngineFails(t *testing.T, _ *testbed.Full, s *subject) {
	s.flip(t)
	thaw := s.freezeWrites(t, "engine-fails", "object-000002")
	stop := s.honest(t)
	r := s.run(t, "migrate", s.name, "--engine", "in-tree", "--yes")
	trims := stop()
	r.want(t, 4, "failed: ", "put back [v1beta1 v1]", "default/object-000002", "--engine in-tree")
	s.stored(t, map[string]int{"v1": 2, "v1beta1": 1})
	if got := fmt.Sprint(s.crd(t).Status.StoredVersions); got != "[v1beta1 v1]" {
		t.Errorf("storedVersions %s", got)
	}
	t.Logf("trimmed and put back %d times", trims)
	if trust := s.status(t).StoredVersionsTrust; trust == nil || trust.Trusted {
		t.Errorf("status trusts: %+v", trust)
	}
	thaw(t)
	s.run(t, "migrate", s.name, "--engine", "in-tree", "--yes").want(t, 0, "proof: ")
	s.finished(t)
}

// finished checks that every object is at v1 and nothing of a migration is left.
func (s *subject) finished(t *testing.T) {
	t.Helper()
	s.stored(t, map[string]int{"v1": 3})
	if got := fmt.Sprint(s.crd(t).Status.StoredVersions); got != "[v1]" {
		t.Errorf("storedVersions %s", got)
	}
	if left := s.svms(t); slices.ContainsFunc(left, func(name string) bool { return strings.HasPrefix(name, "crdver-") }) {
		t.Errorf("left behind: %v", left)
	}
	if trust := s.status(t).StoredVersionsTrust; trust == nil || !trust.Trusted {
		t.Errorf("status does not trust the proof: %+v", trust)
	}
}

// testEngineSecond is the second migration of a CRD: the server trims when it
// starts (fact 2), which is noticed and put right.
func testEngineSecond(t *testing.T, _ *testbed.Full, s *subject) {
	s.inTree(t, "engine-first")
	s.inTreeEnds(t, "engine-first", storagemigrationv1.MigrationSucceeded)
	s.flip(t)
	thaw := s.freezeWrites(t, "engine-second", "object-000002")
	stop := s.honest(t)
	r := s.run(t, "migrate", s.name, "--engine", "in-tree", "--yes")
	if trims := stop(); trims == 0 {
		t.Error("the server did not trim while objects were at v1beta1: the test proves nothing")
	}
	r.want(t, 4, "put back [v1beta1 v1]")
	if got := fmt.Sprint(s.crd(t).Status.StoredVersions); got != "[v1beta1 v1]" {
		t.Errorf("storedVersions %s", got)
	}
	thaw(t)
	s.run(t, "migrate", s.name, "--yes").want(t, 0, "proof: ", "deleted crdver-crontabs-")
	s.finished(t)
}

// following starts a command that has the server migrate, and waits until there is
// the migration that it follows.
func (s *subject) following(t *testing.T) (*exec.Cmd, *testbed.Output) {
	t.Helper()
	command, out := s.begin(t, "migrate", s.name, "--engine", "in-tree", "--yes")
	eventually(t, "the migration is there", migrationLimit, func() bool { return len(s.svms(t)) == 1 })
	return command, out
}

// begin starts a command. The output is both of its streams.
func (s *subject) begin(t *testing.T, args ...string) (*exec.Cmd, *testbed.Output) {
	t.Helper()
	dir := t.TempDir()
	plugin, err := testbed.BuildPlugin(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), plugin, append(args, "--kubeconfig", s.kubeconfig)...)
	command.Env = append(os.Environ(), "HOME="+dir)
	out := &testbed.Output{}
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return command, out
}

// testEngineKilled kills the command while the server migrates. The migration
// goes on, and trims with nobody there; the next run lists again what is not
// proven, follows the migration that is there, and makes no other.
func testEngineKilled(t *testing.T, _ *testbed.Full, s *subject) {
	name := s.killed(t)
	if trust := s.status(t).StoredVersionsTrust; trust == nil || trust.Trusted {
		t.Errorf("status trusts: %+v", trust)
	}
	r := s.run(t, "migrate", s.name, "--engine", "in-tree", "--yes")
	r.want(t, 0, "put v1beta1 back into status.storedVersions", "follow StorageVersionMigration "+name, "deleted "+name, "proof: ")
	r.lacks(t, "create a StorageVersionMigration")
	s.finished(t)
}

// killed makes v1 the storage version, has a command killed that has the server
// migrate, and returns the migration once it has trimmed the list.
func (s *subject) killed(t *testing.T) string {
	t.Helper()
	s.flip(t)
	command, _ := s.following(t)
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // It was killed.
	name := s.svms(t)[0]
	s.inTreeEnds(t, name, storagemigrationv1.MigrationSucceeded)
	eventually(t, "the server trims storedVersions", migrationLimit, func() bool {
		return fmt.Sprint(s.crd(t).Status.StoredVersions) == "[v1]"
	})
	return name
}

// testWaitForSVM has a migration of somebody else that is not finished. It is
// waited for, within the time that there is, and never deleted.
func testWaitForSVM(t *testing.T, bed *testbed.Full, s *subject) {
	config, err := bed.User(t.Context(), "no-migrations", slices.Collect(maps.Values(rights(s.group)))...)
	if err != nil {
		t.Fatal(err)
	}
	s.runAs(t, kubeconfigOf(t, config), "promote", "v1", s.name, "--engine", "in-tree", "--yes").want(t, 3, "StorageVersionMigrations")
	thaw := s.freezeWrites(t, "engine-waits", "object-000002")
	s.inTree(t, "engine-theirs")
	s.run(t, "promote", "v1", s.name, "--yes").want(t, 3, "--wait-for-svm")
	s.run(t, "promote", "v1", s.name, "--engine", "in-tree", "--yes", "--timeout", "1s").want(t, 124)
	thaw(t)
	s.run(t, "promote", "v1", s.name, "--wait-for-svm", "--yes").want(t, 0, "wait until StorageVersionMigration engine-theirs has ended", "promoted to v1")
	s.stored(t, map[string]int{"v1": 3})
	if left := s.svms(t); !slices.Equal(left, []string{"engine-theirs"}) {
		t.Errorf("StorageVersionMigrations %v", left)
	}
}

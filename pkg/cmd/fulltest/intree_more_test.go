//go:build controlplane

package fulltest_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/plan"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestEngineV1beta1 asks a server that has StorageVersionMigrations at v1beta1
// only, as 1.35 and 1.36 have where they are turned on. No controller migrates
// there: that of 1.37 wants v1. So the migration is followed until the time is up,
// the next run finds it again, and once it claims to have succeeded, which it has
// not, the verify pass does the work.
func TestEngineV1beta1(t *testing.T) {
	t.Parallel()
	bed := startFull(t, testbed.FullOptions{
		APIServerArgs: []string{"--runtime-config=storagemigration.k8s.io/v1=false,storagemigration.k8s.io/v1beta1=true"},
	})
	const n = 10
	s := newSubject(t, bed, "engine-v1beta1.example.com", n, "v1beta1", "v1")
	if _, err := kubeClient(t, bed).Discovery().ServerResourcesForGroupVersion(storagemigrationv1.SchemeGroupVersion.String()); err == nil {
		t.Fatal("the server has v1: the test shows nothing")
	}
	migrations := kubeClient(t, bed).StoragemigrationV1beta1().StorageVersionMigrations()
	promote := []string{"promote", "v1", s.name, "--engine", "in-tree"}
	s.run(t, append(promote, "--dry-run=server", "-o", "yaml")...).want(t, 0, "apiVersion: storagemigration.k8s.io/v1beta1")
	s.run(t, append(promote, "--yes", "--timeout", "25s")...).want(t, 124, "create a StorageVersionMigration")
	list, err := migrations.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d StorageVersionMigrations: %v", len(list.Items), err)
	}
	one := list.Items[0]
	if one.Labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy || one.Spec.Resource.Group != s.group {
		t.Errorf("made: %+v", one)
	}
	one.Status.Conditions = []metav1.Condition{{
		Type: string(storagemigrationv1beta1.MigrationSucceeded), Status: metav1.ConditionTrue, Reason: "Said", LastTransitionTime: metav1.Now(),
	}}
	if _, err := migrations.UpdateStatus(t.Context(), &one, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if left, err := testbed.CountByVersion(t.Context(), bed.Etcd(), s.group, testbed.CronTabPlural); err != nil || left["v1beta1"] == 0 {
		t.Errorf("somebody migrated: etcd has %v, %v", left, err)
	}
	s.run(t, append(promote, "--yes")...).want(t, 0, "follow StorageVersionMigration "+one.Name, "deleted "+one.Name, "proof: ")
	s.stored(t, map[string]int{"v1": n})
	if got := fmt.Sprint(s.crd(t).Status.StoredVersions); got != "[v1]" {
		t.Errorf("storedVersions %s", got)
	}
	if list, err := migrations.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("%d StorageVersionMigrations are left: %v", len(list.Items), err)
	}
}

// testEngineInterrupted sends the interrupt of Ctrl-C to the command while it
// follows. It ends with 130, says how to continue and that the server goes on; what
// that trims with nobody there is put back by the next run.
func testEngineInterrupted(t *testing.T, _ *testbed.Full, s *subject) {
	s.flip(t)
	thaw := s.freezeWrites(t, "engine-interrupted", "object-000002")
	command, out := s.following(t)
	name := s.svms(t)[0]
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // The exit code says it.
	if code := command.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	for _, text := range []string{"interrupted", "to continue: kubectl crdver migrate " + s.name, "--engine in-tree", name} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("it says nothing of %q\n%s", text, out)
		}
	}
	if left := s.crd(t).Annotations["crdver.dev/migration"]; left != "" {
		t.Errorf("the CRD is still held: %s", left)
	}
	// Nothing was deleted: the server goes on, and does here what it must not.
	s.inTreeEnds(t, name, storagemigrationv1.MigrationFailed)
	eventually(t, "the server trims storedVersions", migrationLimit, func() bool {
		return fmt.Sprint(s.crd(t).Status.StoredVersions) == "[v1]"
	})
	thaw(t)
	r := s.run(t, "migrate", s.name, "--engine", "in-tree", "--yes")
	r.want(t, 0, "put v1beta1 back into status.storedVersions", "proof: ")
	s.finished(t)
}

// testEngineKilledBeforeAnother promotes another version after a run whose migration
// trimmed the list with nobody there: what is put back is added to the list as it is,
// whose storage version goes on to be listed while objects are stored at it.
func testEngineKilledBeforeAnother(t *testing.T, _ *testbed.Full, s *subject) {
	s.killed(t)
	if _, err := testbed.UpdateCRD(t.Context(), s.bed.Config(), s.name, func(c *apiextensionsv1.CustomResourceDefinition) {
		v2 := *testbed.Version(c, "v1").DeepCopy()
		v2.Name, v2.Storage = "v2", false
		c.Spec.Versions = append(c.Spec.Versions, v2)
	}); err != nil {
		t.Fatal(err)
	}
	r := s.run(t, "promote", "v2", s.name, "--until", "set-storage", "--yes")
	r.want(t, 0, "put v1beta1 back into status.storedVersions", "status.storedVersions: [v1] -> [v1beta1, v1]")
	if got := fmt.Sprint(s.crd(t).Status.StoredVersions); got != "[v1beta1 v1 v2]" {
		t.Errorf("storedVersions %s, and etcd has objects at v1", got)
	}
	s.stored(t, map[string]int{"v1": 3})
	// The migration was made for another storage version, and has nothing more to say.
	s.run(t, "promote", "v2", s.name, "--yes").want(t, 0, "promoted to v2", "proof: ", "deleted crdver-crontabs-")
	s.stored(t, map[string]int{"v2": 3})
	if got := fmt.Sprint(s.crd(t).Status.StoredVersions); got != "[v2]" {
		t.Errorf("storedVersions %s", got)
	}
}

// testWaitForSVMThatTrims waits for somebody else's migration, which trims the list at
// its end: it is put back, and the command goes on to verify and trim.
func testWaitForSVMThatTrims(t *testing.T, _ *testbed.Full, s *subject) {
	s.flip(t)
	thaw := s.freezeWrites(t, "engine-trims", "object-000002")
	s.inTree(t, "engine-trimming")
	command, out := s.begin(t, "migrate", s.name, "--wait-for-svm", "--yes")
	eventually(t, "the command waits", migrationLimit, func() bool {
		return strings.Contains(out.String(), "[1/") && strings.Contains(out.String(), "wait until StorageVersionMigration engine-trimming has ended")
	})
	thaw(t)
	err := command.Wait()
	if err != nil || !strings.Contains(out.String(), "proof: ") {
		t.Errorf("%v\n%s", err, out)
	}
	s.stored(t, map[string]int{"v1": 3})
	if got := fmt.Sprint(s.crd(t).Status.StoredVersions); got != "[v1]" {
		t.Errorf("storedVersions %s", got)
	}
	if left := s.svms(t); !slices.Equal(left, []string{"engine-trimming"}) {
		t.Errorf("StorageVersionMigrations %v", left)
	}
}

// TestSlowLink has as many objects behind as slow a link as make the plan suggest
// another engine: the round trip is measured, through a proxy that delays each
// answer, and nothing is said of fewer objects.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	bed := startFull(t, testbed.FullOptions{})
	s := newSubject(t, bed, "slow-link.example.com", 3, "v1beta1", "v1")
	proxy, err := testbed.StartProxy(t.Context(), bed.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	const delay = 4 * plan.SlowLink
	proxy.StepIn(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		time.Sleep(delay) // The link, not a wait for anything.
		next.ServeHTTP(w, r)
	})
	far := kubeconfigOf(t, proxy.Config())
	promote := []string{"promote", "v1", s.name, "--dry-run=client"}
	const suggestion = "--engine in-tree, or a Job in the cluster (kubectl crdver migrate --manifest job), would be faster"
	s.runAs(t, far, promote...).lacks(t, "would be faster")
	s.multiply(t, plan.ManyObjects)
	r := s.runAs(t, far, promote...)
	r.want(t, 0, suggestion, fmt.Sprintf("there are %d objects", plan.ManyObjects))
	_, after, _ := strings.Cut(r.stdout+r.stderr, "a request takes ")
	text, _, _ := strings.Cut(after, " ")
	if took, err := time.ParseDuration(text); err != nil || took < delay {
		t.Errorf("a request takes %q, %v", text, err)
	}
	s.runAs(t, far, append(promote, "--engine", "client")...).lacks(t, "would be faster")
}

// multiply puts objects into etcd until there are n, copies of one: through the
// server they would take minutes.
func (s *subject) multiply(t *testing.T, n int) {
	t.Helper()
	objects, err := testbed.Stored(t.Context(), s.bed.Etcd(), s.group, testbed.CronTabPlural)
	if err != nil || len(objects) == 0 {
		t.Fatalf("there is nothing to copy: %v", err)
	}
	one := objects[0]
	const atOnce = 100
	var puts []clientv3.Op
	for i := len(objects); i < n; i++ {
		name := fmt.Sprintf("copy-%06d", i)
		text := strings.ReplaceAll(string(one.Raw), `"`+one.Name+`"`, `"`+name+`"`)
		puts = append(puts, clientv3.OpPut(strings.TrimSuffix(one.Key, one.Name)+name, text))
		if len(puts) == atOnce || i == n-1 {
			if _, err := s.bed.Etcd().Txn(t.Context()).Then(puts...).Commit(); err != nil {
				t.Fatal(err)
			}
			puts = nil
		}
	}
}

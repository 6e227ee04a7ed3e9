//go:build controlplane

package testbed_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func startFull(t *testing.T, opts testbed.FullOptions) *testbed.Full {
	t.Helper()
	begin := time.Now()
	bed, err := testbed.StartFull(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %s", time.Since(begin))
	t.Cleanup(bed.Stop)
	return bed
}

func clients(t *testing.T, config *rest.Config) (*kubernetes.Clientset, dynamic.Interface) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client, dyn
}

// TestFullRewritesWithTheInTreeMigrator is what the controller manager is for: an
// in-tree StorageVersionMigration rewrites what etcd holds.
func TestFullRewritesWithTheInTreeMigrator(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	bed := startFull(t, testbed.FullOptions{AuditPolicy: testbed.AuditMetadata})
	client, _ := clients(t, bed.Config())
	info, err := client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if info.GitVersion != testbed.KubernetesVersion {
		t.Errorf("the server is %s, want %s", info.GitVersion, testbed.KubernetesVersion)
	}

	if _, err := testbed.CreateCRD(ctx, bed.Config(), testbed.CronTabs("v1beta1", "v1")); err != nil {
		t.Fatal(err)
	}
	if err := testbed.CreateNamespaces(ctx, bed.Config(), "a", "b", "default"); err != nil {
		t.Fatal(err)
	}
	err = testbed.CreateObjects(ctx, bed.Config(), testbed.CronTabResource("v1"), 20, testbed.ObjectOptions{Namespaces: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	wantCounts(t, bed, map[string]int{"v1beta1": 20})
	_, err = testbed.UpdateCRD(ctx, bed.Config(), testbed.CronTabCRD, func(crd *apiextensionsv1.CustomResourceDefinition) {
		testbed.SetStorageVersion(crd, "v1")
	})
	if err != nil {
		t.Fatal(err)
	}
	probe := testbed.NewCronTab("v1", "a", "probe", 0)
	if err := testbed.WaitForStorageVersion(ctx, bed, testbed.CronTabResource("v1"), probe, "v1"); err != nil {
		t.Fatal(err)
	}
	if err := bed.StartControllerManager(ctx); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	migrate(t, client)
	t.Logf("migrated in %s", time.Since(begin))
	wantCounts(t, bed, map[string]int{"v1": 20})

	audit, err := os.ReadFile(bed.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(audit, []byte("customresourcedefinitions")) {
		t.Error("the audit log does not name customresourcedefinitions")
	}
}

// migrate runs a StorageVersionMigration of CronTabs to its end.
func migrate(t *testing.T, client *kubernetes.Clientset) {
	t.Helper()
	migrations := client.StoragemigrationV1().StorageVersionMigrations()
	migration := &storagemigrationv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: "crontabs"},
		Spec: storagemigrationv1.StorageVersionMigrationSpec{
			Resource: metav1.GroupResource{Group: testbed.CronTabGroup, Resource: testbed.CronTabPlural},
		},
	}
	if _, err := migrations.Create(t.Context(), migration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(90 * time.Second)
	for time.Now().Before(deadline) {
		migration, err := migrations.Get(t.Context(), "crontabs", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, condition := range migration.Status.Conditions {
			switch {
			case condition.Status != metav1.ConditionTrue:
			case condition.Type == string(storagemigrationv1.MigrationSucceeded):
				return
			case condition.Type == string(storagemigrationv1.MigrationFailed):
				t.Fatalf("the migration failed: %s", condition.Message)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the migration did not end")
}

func TestFullUsersAndServers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	bed := startFull(t, testbed.FullOptions{})
	if _, err := testbed.CreateCRD(ctx, bed.Config(), testbed.CronTabs("v1")); err != nil {
		t.Fatal(err)
	}
	reader, err := bed.User(ctx, "reader", rbacv1.PolicyRule{
		APIGroups: []string{testbed.CronTabGroup},
		Resources: []string{testbed.CronTabPlural, testbed.CronTabPlural + "/status"},
		Verbs:     []string{"get", "list"},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, dyn := clients(t, reader)
	crontabs := dyn.Resource(testbed.CronTabResource("v1")).Namespace("default")
	if _, err := crontabs.List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("the reader cannot list: %v", err)
	}
	_, err = crontabs.Create(ctx, testbed.NewCronTab("v1", "default", "x", 0), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("the reader creates: %v, want Forbidden", err)
	}

	other, err := bed.StartAnotherAPIServer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if other.Config().Host == bed.Config().Host {
		t.Errorf("both servers are at %s", other.Config().Host)
	}
	if _, err := testbed.WaitForCRD(ctx, other.Config(), testbed.CronTabCRD); err != nil {
		t.Error(err)
	}
	host := bed.Config().Host
	if err := bed.RestartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if bed.Config().Host != host {
		t.Errorf("after the restart the server is at %s, before at %s", bed.Config().Host, host)
	}
	if _, err := testbed.WaitForCRD(ctx, bed.Config(), testbed.CronTabCRD); err != nil {
		t.Error(err)
	}

	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := bed.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	kubectl, err := bed.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(ctx, kubectl, "--kubeconfig", kubeconfig, "get", "crd", "-o", "name").CombinedOutput()
	if err != nil || !strings.Contains(string(out), testbed.CronTabCRD) {
		t.Errorf("kubectl get crd: %v\n%s", err, out)
	}
}

// TestFullReapsItsChildren runs a bed in a child of this test, kills that child,
// and looks whether the bed's processes are gone with it.
func TestFullReapsItsChildren(t *testing.T) {
	const variable = "TESTBED_ORPHANS"
	if os.Getenv(variable) != "" {
		bed := startFull(t, testbed.FullOptions{})
		fmt.Printf("children of %s\n", filepath.Dir(bed.AuditLog()))
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullReapsItsChildren$")
	cmd.Env = append(os.Environ(), variable+"=1")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		t.Fatalf("the child ended with %v, want a kill\n%s", err, out)
	}
	_, dir, found := strings.Cut(string(out), "children of ")
	if !found {
		t.Fatalf("the child said %q", out)
	}
	dir, _, _ = strings.Cut(dir, "\n")
	defer os.RemoveAll(dir) //nolint:errcheck // The child could not.
	deadline := time.Now().Add(10 * time.Second)
	for len(processesNaming(t, dir)) > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("still running: %q", processesNaming(t, dir))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// processesNaming returns the command lines that contain a text.
func processesNaming(t *testing.T, text string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("there is no /proc")
	}
	var found []string
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && bytes.Contains(line, []byte(text)) {
			found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return found
}

func TestFullNeedsItsBinaries(t *testing.T) {
	t.Parallel()
	_, err := testbed.StartFull(t.Context(), testbed.FullOptions{Assets: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "the control plane is incomplete") {
		t.Errorf("error %v", err)
	}
}

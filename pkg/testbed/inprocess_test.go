package testbed_test

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func start(t *testing.T, opts testbed.InProcessOptions) *testbed.InProcess {
	t.Helper()
	if testing.Short() {
		t.Skip("starts an API server")
	}
	begin := time.Now()
	bed, err := testbed.StartInProcess(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %s", time.Since(begin))
	t.Cleanup(func() {
		begin := time.Now()
		bed.Stop()
		t.Logf("stopped in %s", time.Since(begin))
	})
	return bed
}

func TestInProcessStoresAtTheStorageVersion(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	bed := start(t, testbed.InProcessOptions{})
	if _, err := testbed.CreateCRD(ctx, bed.Config(), testbed.CronTabs("v1beta1", "v1")); err != nil {
		t.Fatal(err)
	}
	// Written through v1, persisted at v1beta1; more than a page of them.
	const n = 1100
	begin := time.Now()
	err := testbed.CreateObjects(ctx, bed.Config(), testbed.CronTabResource("v1"), n, testbed.ObjectOptions{Namespaces: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("created %d objects in %s", n, time.Since(begin))
	wantCounts(t, bed, map[string]int{"v1beta1": n})

	stored, err := testbed.Stored(ctx, bed.Etcd(), testbed.CronTabGroup, testbed.CronTabPlural)
	if err != nil {
		t.Fatal(err)
	}
	if len(stored) != n {
		t.Fatalf("%d objects in etcd, want %d", len(stored), n)
	}
	first := stored[0]
	var body struct {
		Spec struct{ Image string }
	}
	if err := first.Unmarshal(&body); err != nil {
		t.Fatal(err)
	}
	if first.Namespace != "a" || first.Name != "object-000000" || first.APIVersion != "stable.example.com/v1beta1" || body.Spec.Image == "" {
		t.Errorf("first object: %+v, %s", first, first.Raw)
	}

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
	err = testbed.CreateObjects(ctx, bed.Config(), testbed.CronTabResource("v1beta1"), 5, testbed.ObjectOptions{Prefix: "late-"})
	if err != nil {
		t.Fatal(err)
	}
	wantCounts(t, bed, map[string]int{"v1beta1": n, "v1": 5})
}

func wantCounts(t *testing.T, bed testbed.Bed, want map[string]int) {
	t.Helper()
	got, err := testbed.CountByVersion(t.Context(), bed.Etcd(), testbed.CronTabGroup, testbed.CronTabPlural)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stored versions (-want +got):\n%s", diff)
	}
}

func TestInProcessBedsAreIndependent(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			bed := start(t, testbed.InProcessOptions{})
			if _, err := testbed.CreateCRD(t.Context(), bed.Config(), testbed.CronTabs("v1")); err != nil {
				t.Fatal(err)
			}
			if err := testbed.CreateObjects(t.Context(), bed.Config(), testbed.CronTabResource("v1"), i, testbed.ObjectOptions{}); err != nil {
				t.Fatal(err)
			}
			want := map[string]int{}
			if i > 0 {
				want["v1"] = i
			}
			wantCounts(t, bed, want)
		})
	}
}

func TestInProcessServersShareAnEtcd(t *testing.T) {
	t.Parallel()
	one := start(t, testbed.InProcessOptions{})
	two := start(t, testbed.InProcessOptions{Etcd: one.EmbeddedEtcd()})
	if _, err := testbed.CreateCRD(t.Context(), one.Config(), testbed.CronTabs("v1beta1", "v1")); err != nil {
		t.Fatal(err)
	}
	if _, err := testbed.WaitForCRD(t.Context(), two.Config(), testbed.CronTabCRD); err != nil {
		t.Fatal(err)
	}
}

func TestInProcessMiddleware(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	bed := start(t, testbed.InProcessOptions{Middleware: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if broken.Load() && strings.HasPrefix(r.UserAgent(), "breakme") {
				http.Error(w, "no", http.StatusTeapot)
				return
			}
			next.ServeHTTP(w, r)
		})
	}})
	config := bed.Config()
	config.UserAgent = "breakme"
	client, err := clientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	list := func() error {
		_, err := client.ApiextensionsV1().CustomResourceDefinitions().List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := list(); err != nil {
		t.Fatal(err)
	}
	broken.Store(true)
	if err := list(); err == nil {
		t.Error("the middleware was not asked")
	}
}

func TestInProcessKubeconfigAndVersion(t *testing.T) {
	t.Parallel()
	bed := start(t, testbed.InProcessOptions{})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := bed.WriteKubeconfig(path); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	info, err := client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	// The server is as new as the modules it is made of.
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/apiserver").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(strings.TrimSpace(string(out)), "v0.", "v1.", 1)
	if info.GitVersion != want || testbed.KubernetesVersion != want {
		t.Errorf("the server is %s, KubernetesVersion %s, want %s", info.GitVersion, testbed.KubernetesVersion, want)
	}
}

// TestInProcessDiscovery looks at the two documents that clients learn the
// resources from: kubectl asks for the aggregated one, older clients for the other.
func TestInProcessDiscovery(t *testing.T) {
	t.Parallel()
	bed := start(t, testbed.InProcessOptions{})
	if _, err := testbed.CreateCRD(t.Context(), bed.Config(), testbed.CronTabs("v1beta1", "v1")); err != nil {
		t.Fatal(err)
	}
	client, err := clientset.NewForConfig(bed.Config())
	if err != nil {
		t.Fatal(err)
	}
	for name, disco := range map[string]discovery.DiscoveryInterface{
		"aggregated": client.Discovery(),
		"legacy":     client.Discovery().WithLegacy(),
	} {
		groups, err := disco.ServerGroups()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		preferred := map[string]string{}
		for _, group := range groups.Groups {
			preferred[group.Name] = group.PreferredVersion.GroupVersion
		}
		want := map[string]string{
			"apiextensions.k8s.io": "apiextensions.k8s.io/v1",
			testbed.CronTabGroup:   testbed.CronTabGroup + "/v1",
		}
		if diff := cmp.Diff(want, preferred); diff != "" {
			t.Errorf("%s: preferred versions (-want +got):\n%s", name, diff)
		}
	}
}

func TestStartStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if bed, err := testbed.StartInProcess(ctx, testbed.InProcessOptions{}); err == nil {
		bed.Stop()
		t.Fatal("started although its context was cancelled")
	}
}

func TestStopTwice(t *testing.T) {
	t.Parallel()
	bed := start(t, testbed.InProcessOptions{})
	bed.Stop()
	bed.Stop()
}

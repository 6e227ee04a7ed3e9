package e2e_test

import (
	"bytes"
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// startBrownout begins a brownout of an hour that only something else can end.
func (b *bed) startBrownout(t *testing.T, name, group string) <-chan result {
	t.Helper()
	done := make(chan result, 1)
	go func() {
		done <- execute(t.Context(), &bytes.Buffer{}, "brownout", "v1beta1", name, "--for", "1h", "--allow-in-use", "--yes", "--kubeconfig", b.kubeconfig)
	}()
	b.until(t, group, "v1beta1", false)
	return done
}

// TestBrownoutOfWhatGoes deletes the CRD during a brownout, which ends at once. Where
// the deletion waits for a controller, that may need the version; where it is done,
// there is nothing left to serve.
func TestBrownoutOfWhatGoes(t *testing.T) {
	t.Parallel()
	// While a CRD is being deleted, its server asks whatever admission there is.
	meanwhile := &traffic{}
	b := start(t, testbed.InProcessOptions{Admission: admission.NewChainHandler(), Middleware: meanwhile.wrap})
	const group = "goes.example.com"
	name := b.brownoutScene(t, group)
	crds := b.crds(t).ApiextensionsV1().CustomResourceDefinitions()
	object := b.objects(t).Resource(resource(group, "v1")).Namespace("a")
	finalizers := func(list string) {
		t.Helper()
		if _, err := object.Patch(t.Context(), "object-000000", types.MergePatchType, []byte(`{"metadata":{"finalizers":`+list+`}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	finalizers(`["example.com/wait"]`)
	done := b.startBrownout(t, name, group)
	if err := crds.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	got := <-done
	if got.code != 3 {
		t.Error(got)
	}
	contains(t, got.stdout, name+" served again, after a brownout of v1beta1 that ended early (refused)",
		"stopped: brownout: the CRD "+name+" is being deleted: the brownout ends", "v1beta1 is served again")
	b.wantNoBrownout(t, name, group)
	finalizers(`null`)
	b.goes(t, name)

	// Gone between two looks.
	b.brownoutScene(t, group)
	done = b.startBrownout(t, name, group)
	gone := make(chan struct{})
	meanwhile.stepIn(func(r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/customresourcedefinitions/"+name) {
			<-gone
		}
	})
	if err := crds.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.goes(t, name)
	close(gone)
	if got = <-done; got.code != 3 || strings.Contains(got.stdout, "NOT SERVED AGAIN") || strings.Contains(got.stdout, "the way back") {
		t.Error(got)
	}
	contains(t, got.stdout, "v1beta1 is not to be served again: the CRD is not there any more", "stopped: brownout: the CRD "+name+" is gone: somebody deleted it")
}

// goes waits until a CRD is gone.
func (b *bed) goes(t *testing.T, name string) {
	t.Helper()
	crds := b.crds(t).ApiextensionsV1().CustomResourceDefinitions()
	eventually(t, func() bool {
		_, err := crds.Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// TestBrownoutServedByOthers has somebody else serve the version during a brownout,
// as Argo CD does that puts back what the manifest says, or restore on another
// machine. It ends at once, and leaves nothing behind.
func TestBrownoutServedByOthers(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "others.example.com"
	name := b.brownoutScene(t, group)
	for _, serve := range []func(){
		func() {
			b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[0].Served = true })
		},
		func() { b.must(t, 0, "restore", "v1beta1", name, "--yes") },
	} {
		done := b.startBrownout(t, name, group)
		serve()
		got := <-done
		if got.code != 3 {
			t.Error(got)
		}
		contains(t, got.stdout, "stopped: brownout: somebody else serves v1beta1 again: the brownout ends", "v1beta1 is served again")
		b.wantNoBrownout(t, name, group)
	}
}

// says waits until a process has written all of some texts.
func says(t *testing.T, out *testbed.Output, texts ...string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		missing := ""
		for _, text := range texts {
			if !strings.Contains(out.String(), text) {
				missing = text
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it never says %q:\n%s", missing, out)
		}
	}
}

// TestBrownoutWithoutServer has the way to the API server fail when the time is up.
// It is tried until it works; whoever gives up was told what to run.
func TestBrownoutWithoutServer(t *testing.T) {
	t.Parallel()
	plugin := binary(t)
	b := start(t, testbed.InProcessOptions{})
	const group = "down.example.com"
	name := b.brownoutScene(t, group)
	behind, proxy := b.behindProxy(t)
	down := func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }
	back := "Whoever gives up has to run: kubectl crdver restore v1beta1 " + name + " --kubeconfig " + behind.kubeconfig
	begin := func() (*exec.Cmd, *testbed.Output) {
		command, out := b.brownoutProcess(t, plugin, behind.kubeconfig, name, "3s")
		says(t, out, "v1beta1 is not served, ")
		proxy.StepIn(down)
		says(t, out, "v1beta1 is STILL NOT SERVED: ", back, "kubectl patch crd "+name+` --type json -p '[{\"op\":\"test\",\"path\":\"/spec/versions/0/name\",\"value\":\"v1beta1\"}`)
		return command, out
	}

	command, out := begin()
	// A balancer that answers itself is not the API server, which would say that the CRD is gone.
	answered := make(chan struct{}, 1)
	proxy.StepIn(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		http.NotFound(w, r)
		select {
		case answered <- struct{}{}:
		default:
		}
	})
	<-answered
	proxy.StepIn(nil)
	if err := command.Wait(); err != nil || !strings.Contains(out.String(), "v1beta1 is served again") {
		t.Errorf("%v\n%s", err, out)
	}
	b.wantNoBrownout(t, name, group)

	command, out = begin()
	if err := command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	says(t, out, "interrupt again to stop at once")
	if err := command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := command.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("%v\n%s", err, out)
	}
	proxy.StepIn(nil)
	b.until(t, group, "v1beta1", false)
	b.must(t, 0, "restore", "v1beta1", name, "--yes")
	b.wantNoBrownout(t, name, group)
}

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// stub writes a plugin that is a shell script, hides any kubectl, and returns the
// plugin's directory.
func stub(t *testing.T, script string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts an API server")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kubectl-crdver"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	return dir
}

func TestRunFailsWhenNothingWasDone(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), options{plugins: stub(t, `echo "plugin: $*"`), out: &out, errOut: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "the demo failed") {
		t.Errorf("error %v\n%s", err, &out)
	}
	for _, want := range []string{
		"etcd holds 200 objects at v1beta1; the CRD has versions [v1beta1 v1], storedVersions [v1beta1].",
		"\n$ kubectl crdver promote v1 --yes\nplugin: promote v1 --yes\n",
		"\n$ kubectl crdver retire v1beta1 --yes --allow-in-use\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, &out)
		}
	}
}

func TestRunFailsWithItsSteps(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), options{plugins: stub(t, `exit 3`), out: &out, errOut: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "kubectl crdver sort: exit status 3") {
		t.Errorf("error %v\n%s", err, &out)
	}
}

func TestRunWithoutPlugin(t *testing.T) {
	err := run(t.Context(), options{plugins: t.TempDir(), out: io.Discard, errOut: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("error %v", err)
	}
}

// TestRun is the demo with the plugin itself.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the plugin")
	}
	dir := t.TempDir()
	if _, err := testbed.BuildPlugin(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	var out bytes.Buffer
	if err := run(t.Context(), options{plugins: dir, out: &out, errOut: &out}); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	want := "After:  etcd holds 200 objects at v1; the CRD has versions [v1], storedVersions [v1].\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("the output does not end with %q:\n%s", want, &out)
	}
}

// TestRunOnTheUsersCluster shows that the demo deletes what it created there, also
// after a failure and after an interrupt, and touches no CRD that was there.
func TestRunOnTheUsersCluster(t *testing.T) {
	dir := stub(t, `echo "plugin: $*"`)
	bed, err := testbed.StartInProcess(t.Context(), testbed.InProcessOptions{Middleware: fakeNamespaces})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Stop)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := bed.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	client, err := clientset.NewForConfig(bed.Config())
	if err != nil {
		t.Fatal(err)
	}
	crds := client.ApiextensionsV1().CustomResourceDefinitions()

	var out bytes.Buffer
	err = run(t.Context(), options{plugins: dir, kubeconfig: kubeconfig, out: &out, errOut: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "the demo failed") {
		t.Fatalf("error %v\n%s", err, &out)
	}
	for _, want := range []string{
		"the server lists 200 objects",
		"\n$ kubectl crdver promote v1 crontabs.stable.example.com --yes\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, &out)
		}
	}
	if _, err := crds.Get(t.Context(), testbed.CronTabCRD, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the CRD after the demo: %v, want NotFound", err)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	interrupt := &trigger{text: "plugin: status", call: func() { cancel(errors.New("interrupted")) }}
	err = run(ctx, options{plugins: dir, kubeconfig: kubeconfig, keep: true, out: interrupt, errOut: io.Discard})
	if err == nil {
		t.Error("an interrupted demo succeeded")
	}
	if _, err := crds.Get(t.Context(), testbed.CronTabCRD, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the CRD after an interrupt: %v, want NotFound", err)
	}

	if _, err := testbed.CreateCRD(t.Context(), bed.Config(), testbed.CronTabs("v1alpha1")); err != nil {
		t.Fatal(err)
	}
	err = run(t.Context(), options{plugins: dir, kubeconfig: kubeconfig, out: io.Discard, errOut: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "the cluster has a CRD crontabs.stable.example.com") {
		t.Errorf("error %v", err)
	}
	if _, err := crds.Get(t.Context(), testbed.CronTabCRD, metav1.GetOptions{}); err != nil {
		t.Errorf("the CRD that was there: %v", err)
	}
}

// trigger calls a function when a text is written to it.
type trigger struct {
	text string
	call func()
	seen bytes.Buffer
}

func (w *trigger) Write(b []byte) (int, error) {
	w.seen.Write(b)
	if strings.Contains(w.seen.String(), w.text) {
		w.call()
	}
	return len(b), nil
}

// fakeNamespaces says that every namespace exists: the in-process bed has none.
func fakeNamespaces(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"any"}}`)
	})
}

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// works lists at a version as a client would.
func (b *bed) works(ctx context.Context, t *testing.T, group, version string) error {
	t.Helper()
	_, err := b.objects(t).Resource(resource(group, version)).List(ctx, metav1.ListOptions{})
	return err
}

// until waits until a client at the version works, or fails.
func (b *bed) until(t *testing.T, group, version string, works bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err := b.works(t.Context(), t, group, version); (err == nil) == works {
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("a client at %s: never works=%v", version, works)
}

// wantNoBrownout makes sure that nothing is left of a brownout.
func (b *bed) wantNoBrownout(t *testing.T, name, group string) {
	t.Helper()
	if text, found := b.crd(t, name).Annotations[lifecycle.BrownoutAnnotation]; found {
		t.Errorf("the annotation is left: %s", text)
	}
	b.until(t, group, "v1beta1", true)
}

func (b *bed) brownoutScene(t *testing.T, group string) string {
	t.Helper()
	name := b.scene(t, group, 3)
	b.must(t, 0, "promote", "v1", name, "--yes")
	return name
}

// TestBrownout has clients at v1beta1 fail for a while, and work afterwards, while
// those at v1 work all the time; twice.
func TestBrownout(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "brownout.example.com"
	name := b.brownoutScene(t, group)
	contains(t, b.must(t, 3, "brownout", "v1beta1", name, "--for", "2s", "--yes").stderr, "v1beta1 is in use: manager", "--allow-in-use")
	contains(t, b.must(t, 3, "brownout", "v1", name, "--for", "2s", "--yes", "--allow-in-use").stderr, "v1 is the storage version")

	args := []string{"brownout", "v1beta1", name, "--for", "4s", "--repeat", "2", "--every", "10s", "--allow-in-use", "--yes", "-o", "json"}
	done := make(chan result, 1)
	go func() { done <- b.run(t, args...) }()
	for range 2 {
		b.until(t, group, "v1beta1", false)
		if err := b.works(t.Context(), t, group, "v1"); err != nil {
			t.Error(err)
		}
		// A second one stops, and any other command says so.
		contains(t, b.must(t, 3, "brownout", "v1beta1", name, "--for", "2s", "--allow-in-use", "--yes").stderr, "a brownout of v1beta1 by", "is under way until")
		contains(t, b.must(t, 0, "deprecate", "v1beta1", name, "--dry-run=client").stdout, "a brownout of v1beta1 by", "kubectl crdver restore v1beta1 "+name)
		b.until(t, group, "v1beta1", true)
	}
	got := <-done
	if got.code != 0 {
		t.Fatal(got)
	}
	var report v1alpha1.Report
	decode(t, "json", got.stdout, &report)
	if report.Brownout == nil || len(report.Brownout.Rounds) != 2 || !report.Brownout.Served || len(report.Brownout.NotWatched) == 0 {
		t.Errorf("the report says %+v", report.Brownout)
	}
	contains(t, report.Back, "kubectl crdver restore v1beta1 "+name)
	b.wantNoBrownout(t, name, group)
}

// brownoutProcess starts the real binary.
func (b *bed) brownoutProcess(t *testing.T, plugin, kubeconfig, name, length string) (command *exec.Cmd, out *testbed.Output) {
	t.Helper()
	command = exec.CommandContext(t.Context(), plugin, "brownout", "v1beta1", name, "--for", length, "--allow-in-use", "--yes",
		"--progress", "json", "--kubeconfig", kubeconfig)
	out = &testbed.Output{}
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return command, out
}

// TestBrownoutSignals ends a brownout of an hour with signals: it serves the version
// again first. After SIGKILL, status says what is left, and the next run of each
// command that could be meant puts it right.
func TestBrownoutSignals(t *testing.T) {
	t.Parallel()
	plugin := binary(t)
	b := start(t, testbed.InProcessOptions{})
	const group = "signals.example.com"
	name := b.brownoutScene(t, group)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		command, out := b.brownoutProcess(t, plugin, b.kubeconfig, name, "1h")
		b.until(t, group, "v1beta1", false)
		if err := command.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := command.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
			t.Errorf("%s: %v\n%s", signal, err, out)
		}
		contains(t, out.String(), name+" served again, after a brownout of v1beta1 that ended early (interrupted)", "v1beta1 is served again", "the way back: kubectl crdver restore v1beta1 "+name)
		b.wantNoBrownout(t, name, group)
	}
	// Whoever meant more than the way back gets that, and is told of the rest.
	const more = "nothing more was done than to end a brownout that an earlier run had not ended"
	for _, next := range []struct {
		code        int
		args, texts []string
	}{
		{code: 0, args: []string{"restore", "v1beta1", name, "--yes"}, texts: []string{name + " restored v1beta1"}},
		{code: 4, args: []string{"retire", "v1beta1", name, "--yes"}, texts: []string{name + " partly retired v1beta1", more, "kubectl crdver retire v1beta1 " + name}},
		{
			code: 4, args: []string{"brownout", "v1beta1", name, "--for", "1s", "--allow-in-use", "--yes"},
			texts: []string{
				"The plan only ends a brownout; run again for the rest.", name + " served again as before an earlier brownout; that of v1beta1 is yet to be made",
				more, "kubectl crdver brownout v1beta1 " + name + " --allow-in-use --for 1s",
			},
		},
	} {
		command, _ := b.brownoutProcess(t, plugin, b.kubeconfig, name, "1h")
		b.until(t, group, "v1beta1", false)
		if err := command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = command.Wait() // It was killed.
		b.wantBrownedOut(t, name)
		got := b.must(t, next.code, next.args...)
		contains(t, got.stdout+got.stderr, next.texts...)
		b.wantNoBrownout(t, name, group)
	}
	contains(t, b.must(t, 0, "brownout", "v1beta1", name, "--for", "1s", "--allow-in-use", "--yes").stdout, "v1beta1 is served again")
	b.wantNoBrownout(t, name, group)
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1"})
}

// TestBrownoutOverdue finds, from another machine, what a process that is no longer
// there left behind.
func TestBrownoutOverdue(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "overdue.example.com"
	name := b.brownoutScene(t, group)
	b.annotate(t, name, lifecycle.BrownoutAnnotation,
		`{"version":"v1beta1","started":"2026-01-02T03:04:05Z","until":"2026-01-02T03:09:05Z","by":"bob@elsewhere, process 7","id":"1"}`)
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
		for i := range c.Spec.Versions {
			c.Spec.Versions[i].Served = c.Spec.Versions[i].Name == "v1"
		}
	})
	contains(t, b.must(t, 0, "status", name).stdout, "was to end at 2026-01-02T03:09:05Z and is overdue", "kubectl crdver restore v1beta1 "+name)
	contains(t, b.must(t, 4, "retire", "v1beta1", name, "--yes").stderr, "was never ended: first it is served again")
	b.wantNoBrownout(t, name, group)

	// One that cannot be read is about no version that is known.
	b.annotate(t, name, lifecycle.BrownoutAnnotation, "")
	contains(t, b.must(t, 3, "brownout", "v1beta1", name, "--for", "1s", "--allow-in-use", "--yes").stderr, "the annotation crdver.dev/brownout cannot be read")
	got := b.must(t, 0, "restore", "v1", name, "--yes")
	contains(t, got.stderr, "1. remove crdver.dev/brownout, which cannot be read", `- metadata.annotations[crdver.dev/brownout]: ""`)
	if strings.Contains(got.stderr, "begun with v1") {
		t.Error(got)
	}
	b.wantNoBrownout(t, name, group)
}

// TestBrownoutConcurrentChange changes the CRD while a version is not served: what
// was changed stays, and the version is served again all the same.
func TestBrownoutConcurrentChange(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "meanwhile.example.com"
	name := b.brownoutScene(t, group)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan result, 1)
	go func() {
		done <- execute(ctx, &bytes.Buffer{}, "brownout", "v1beta1", name, "--for", "1h", "--allow-in-use", "--yes", "--kubeconfig", b.kubeconfig)
	}()
	b.until(t, group, "v1beta1", false)
	b.updateCRD(t, name, func(c *apiextensionsv1.CustomResourceDefinition) {
		added := *c.Spec.Versions[0].DeepCopy()
		added.Name, added.Storage, added.Served = "v2", false, true
		c.Spec.Versions = append([]apiextensionsv1.CustomResourceDefinitionVersion{added}, c.Spec.Versions...)
	})
	cancel()
	if got := <-done; got.code != 130 || !strings.Contains(got.stdout, "v1beta1 is served again") {
		t.Errorf("%s", got)
	}
	b.wantNoBrownout(t, name, group)
	b.wantVersions(t, name, []string{"v2", "v1beta1", "v1 storage"}, []string{"v1"})
}

// wantBrownedOut has a version that nobody serves again any more taken for what it is,
// not for one that nobody needs.
func (b *bed) wantBrownedOut(t *testing.T, name string) {
	t.Helper()
	got := b.must(t, 0, "status", name)
	contains(t, got.stdout, "a brownout of v1beta1 by", "its process is gone", "not yet: brownout")
	fields(t, got.stdout, "Next: kubectl crdver restore v1beta1 "+name)
	if row := b.must(t, 0, "status").stdout; !strings.Contains(row, " restore v1beta1\n") || strings.Contains(row, "retire") {
		t.Error(row)
	}
	for _, args := range [][]string{{"status", name}, {"validate", name}} {
		if got := b.must(t, 0, args...); strings.Contains(got.stdout, "crdver retire") || strings.Contains(got.stdout, "could-be-removed") {
			t.Error(got)
		}
	}
	contains(t, b.must(t, 2, "can-remove", "v1beta1", name).stdout, "not served because of a brownout", "kubectl crdver restore v1beta1 "+name)
}

package e2e_test

import (
	"bytes"
	"context"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// eventually waits for something that has to come.
func eventually(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come")
		}
	}
}

// changing are the commands that would change something on a scene, one after
// the other.
func changing(name string) [][]string {
	return [][]string{
		{"deprecate", "v1beta1", name},
		{"promote", "v1", name},
		{"promote", "v2", name, "--from", "v1"},
		{"migrate", name, "--force"},
		{"retire", "v1alpha1", name},
		{"restore", "v1alpha2", name},
	}
}

// changeable creates a CRD on which each of these commands would change something.
func (b *bed) changeable(t *testing.T, group string) string {
	t.Helper()
	c := crontabs(group, "v1beta1", "v1", "v1alpha1", "v1alpha2")
	testbed.Version(c, "v1alpha2").Served = false
	name := b.createCRD(t, c)
	b.createObjects(t, group, "v1beta1", 20, "a", "b")
	return name
}

func TestWithoutATerminal(t *testing.T) {
	t.Parallel()
	var watch traffic
	b := start(t, testbed.InProcessOptions{Middleware: watch.wrap})
	name := b.changeable(t, "unattended.example.com")
	before := b.revisions(t)
	for _, args := range changing(name) {
		got := b.must(t, 3, args...)
		contains(t, got.stderr, "Plan: ", "error: there is no terminal to ask on: nothing was changed; pass --yes to go on without asking")
		if got.stdout != "" {
			t.Errorf("%q: standard output: %s", args, got.stdout)
		}
		if _, _, writes := watch.take(); len(writes) > 0 {
			t.Errorf("%q: %q", args, writes)
		}
	}
	b.wantUnwritten(t, before)

	// A pipe that stays open and says nothing, and the binary.
	command := exec.CommandContext(t.Context(), binary(t), "promote", "v1", name, "--kubeconfig", b.kubeconfig)
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close() //nolint:errcheck // there is nobody to tell
	if out, _ := command.CombinedOutput(); command.ProcessState.ExitCode() != 3 {
		t.Errorf("exit code %d: %s", command.ProcessState.ExitCode(), out)
	}
	b.wantUnwritten(t, before)
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	var watch traffic
	b := start(t, testbed.InProcessOptions{Middleware: watch.wrap})
	name := b.changeable(t, "dryrun.example.com")
	before := b.revisions(t)
	watch.take()
	for _, args := range changing(name) {
		got := b.must(t, 0, append(args, "--dry-run=client")...)
		contains(t, got.stdout, "Plan: ", " (dry run)\n")
		if _, dryRuns, writes := watch.take(); len(dryRuns)+len(writes) > 0 {
			t.Errorf("%q --dry-run=client: %q %q", args, dryRuns, writes)
		}
		got = b.must(t, 0, append(args, "--dry-run=server")...)
		contains(t, got.stdout, "Plan: ", " (server dry run)\n")
		if _, dryRuns, writes := watch.take(); len(dryRuns) == 0 || len(writes) > 0 {
			t.Errorf("%q --dry-run=server: %d dry runs, writes %q", args, len(dryRuns), writes)
		}
		b.must(t, 2, append(args, "--dry-run=client", "--detailed-exitcode")...)
		b.must(t, 2, append(args, "--dry-run=server", "--detailed-exitcode")...)
		watch.take()
	}
	b.must(t, 0, "promote", "v1beta1", name, "--dry-run=server", "--detailed-exitcode")
	b.wantUnwritten(t, before)
}

// slow makes the server take its time over each object that is really patched.
func slow(delay time.Duration, seen *atomic.Int32) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if patchesObject(r) {
				seen.Add(1)
				time.Sleep(delay)
			}
			next.ServeHTTP(w, r)
		})
	}
}

func TestInterruptDuringMigration(t *testing.T) {
	t.Parallel()
	var seen atomic.Int32
	b := start(t, testbed.InProcessOptions{Middleware: slow(100*time.Millisecond, &seen)})
	const n, group = 120, "interrupt.example.com"
	name := b.scene(t, group, n)
	promote := func(signal syscall.Signal, flags ...string) (code int, stdout, stderr string) {
		t.Helper()
		seen.Store(0)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		args := append([]string{"promote", "v1", name, "--yes", "--concurrency", "1", "--kubeconfig", b.kubeconfig}, flags...)
		command := exec.CommandContext(ctx, binary(t), args...)
		var out, errOut bytes.Buffer
		command.Stdout, command.Stderr = &out, &errOut
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		if signal != 0 {
			// The barrier patches some, too.
			eventually(t, func() bool { return seen.Load() > 30 })
			if err := command.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
		}
		_ = command.Wait() // The exit code says it.
		return command.ProcessState.ExitCode(), out.String(), errOut.String()
	}
	for i, test := range []struct {
		signal syscall.Signal
		code   int
		says   string
	}{
		{syscall.SIGINT, 130, "interrupted"},
		{syscall.SIGTERM, 130, "interrupted"},
		{0, 124, "--timeout reached"},
	} {
		var code int
		var stdout, stderr string
		if test.signal != 0 {
			code, stdout, stderr = promote(test.signal)
		} else {
			// The run takes more than twice as long as its plan, on any machine.
			for timeout := 10 * time.Second; ; timeout *= 2 {
				code, stdout, stderr = promote(0, "--timeout", timeout.String())
				if !strings.Contains(stderr, "nothing was changed") {
					break
				}
			}
		}
		if code != test.code {
			t.Errorf("want exit code %d, got %d\n%s%s", test.code, code, stdout, stderr)
		}
		resume := "to continue: kubectl crdver promote v1 " + name
		contains(t, stderr, test.says, resume)
		contains(t, stdout, "(interrupted)", resume, "not run: ", "trim")
		if strings.Contains(stdout+stderr, "context canceled") {
			t.Error("context canceled is no word for a reader")
		}
		if c := b.crd(t, name); len(c.Status.StoredVersions) != 2 {
			t.Errorf("run %d: storedVersions %q", i, c.Status.StoredVersions)
		}
		t.Logf("%s", stderr)
	}
	b.must(t, 0, "promote", "v1", name, "--yes")
	b.wantStored(t, group, map[string]int{"v1": n})
	b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1"})
}

// oneLine makes sure that an error is one line.
func oneLine(t *testing.T, stderr string) {
	t.Helper()
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(stderr), "\n") {
		if !strings.HasPrefix(line, "See 'kubectl crdver ") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "error: ") {
		t.Errorf("want one line that starts with error, got:\n%s", stderr)
	}
}

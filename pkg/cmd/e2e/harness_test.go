package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/crdver/kubectl-crdver/pkg/cmd"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// bed is an API server in this process, and a kubeconfig that leads to it.
type bed struct {
	*testbed.InProcess
	kubeconfig string
}

func start(t *testing.T, options testbed.InProcessOptions) *bed {
	t.Helper()
	if testing.Short() {
		t.Skip("starts an API server")
	}
	server, err := testbed.StartInProcess(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	b := &bed{InProcess: server, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	if err := server.WriteKubeconfig(b.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return b
}

// behindProxy returns the same server, which commands then reach through the proxy.
func (b *bed) behindProxy(t *testing.T) (*bed, *testbed.Proxy) {
	t.Helper()
	proxy, err := testbed.StartProxy(t.Context(), b.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	behind := &bed{InProcess: b.InProcess, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	if err := testbed.WriteKubeconfig(behind.kubeconfig, proxy.Config()); err != nil {
		t.Fatal(err)
	}
	return behind, proxy
}

// result is what a command came to.
type result struct {
	code           int
	stdout, stderr string
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d\n--- stdout\n%s--- stderr\n%s", r.code, r.stdout, r.stderr)
}

// neverRead is a standard input that nothing may read.
type neverRead struct{ t *testing.T }

func (r neverRead) Read([]byte) (int, error) {
	r.t.Error("standard input was read")
	return 0, io.EOF
}

// execute runs the root command with exactly these arguments.
func execute(ctx context.Context, in io.Reader, args ...string) result {
	return executeAt(ctx, in, nil, args...)
}

// allowInUse makes a retirement go on although the objects have just been written
// at the version: what the tests are about is something else, unless they say.
func allowInUse(args []string) []string {
	if len(args) > 1 && args[0] == "retire" && !slices.Contains(args, "--allow-in-use") && !slices.Contains(args, "--usage-window") {
		return append(slices.Clone(args), "--allow-in-use")
	}
	return args
}

// executeAt is execute at the time of a clock; nil for that of the server.
func executeAt(ctx context.Context, in io.Reader, clock func() time.Time, args ...string) result {
	var out, errOut testbed.Output
	root := cmd.NewRootCommand(genericiooptions.IOStreams{In: in, Out: &out, ErrOut: &errOut}, cmd.WithClock(clock))
	root.SetArgs(allowInUse(args))
	err := root.ExecuteContext(ctx)
	cmd.PrintError(&errOut, err)
	return result{code: cmd.ExitCode(err), stdout: out.String(), stderr: errOut.String()}
}

// run runs a command on the bed. Nobody is at its standard input.
func (b *bed) run(t *testing.T, args ...string) result {
	t.Helper()
	return execute(t.Context(), neverRead{t}, append(args, "--kubeconfig", b.kubeconfig)...)
}

// must runs a command that has to end with a code.
func (b *bed) must(t *testing.T, code int, args ...string) result {
	t.Helper()
	got := b.run(t, args...)
	if got.code != code {
		t.Fatalf("kubectl crdver %s: want exit code %d, got %s", strings.Join(args, " "), code, got)
	}
	return got
}

// contains makes sure that a text has all of some parts.
func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

// writeFile writes a file of the test and returns its path.
func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// errUnexpected marks what a test did not expect of the server.
var errUnexpected = errors.New("unexpected")

package chaos_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// long runs every fault for as long and among as many objects as the requirements
// say; without, the tests are a short form of that.
var long = flag.Bool("long", false, "run every fault in full length, among 5,000 objects")

// objects is how many are migrated, where not as many as the form says.
var objects = flag.Int("objects", 0, "migrate that many objects")

// plugin is the binary to test, where it need not be built.
var plugin = flag.String("plugin", "", "test the plugin at this path rather than building it")

// buildDir is where the binary is built; TestMain deletes it.
var buildDir string

func TestMain(m *testing.M) {
	os.Exit(runTests(m)) //nolint:forbidigo // this is the main of the tests
}

// runTests lets more tests run at a time than there are processors: they wait much
// of the time. The flag -parallel takes precedence.
func runTests(m *testing.M) int {
	err := flag.Set("test.parallel", "5")
	if err != nil {
		panic(err)
	}
	if buildDir, err = os.MkdirTemp("", "crdver-chaos-"); err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(buildDir) }()
	return m.Run()
}

// build builds the plugin once in a run of the tests.
var build = sync.OnceValues(func() (string, error) {
	if *plugin != "" {
		return *plugin, nil
	}
	return testbed.BuildPlugin(context.Background(), buildDir)
})

// choose returns the first value in the long form and the second one in the short.
func choose[T any](full, short T) T {
	if *long {
		return full
	}
	return short
}

// process is the plugin at work.
type process struct {
	args           []string
	command        *exec.Cmd
	stdout, stderr testbed.Output
	done           chan struct{}
}

// launch starts the plugin, in a shell that does something before where limit says
// so.
func launch(ctx context.Context, kubeconfig, limit string, args ...string) (*process, error) {
	path, err := build()
	if err != nil {
		return nil, err
	}
	p := &process{args: args, done: make(chan struct{})}
	words := append([]string{path}, append(args, "--kubeconfig", kubeconfig)...)
	if limit != "" {
		words = append([]string{"sh", "-c", limit + `; exec "$@"`, "sh"}, words...)
	}
	p.command = exec.CommandContext(ctx, words[0], words[1:]...)
	p.command.Stdout, p.command.Stderr = &p.stdout, &p.stderr
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the plugin: %w", err)
	}
	go func() {
		defer close(p.done)
		_ = p.command.Wait() // Its state says how it ended.
	}()
	return p, nil
}

// end waits for the end of the plugin and returns its exit code, -1 for a signal.
func (p *process) end() int {
	<-p.done
	return p.command.ProcessState.ExitCode()
}

// String is what there is to say of a process that ended.
func (p *process) String() string {
	return fmt.Sprintf("kubectl crdver %s: %s\n--- stdout\n%s--- stderr\n%s",
		strings.Join(p.args, " "), p.command.ProcessState, p.stdout.String(), p.stderr.String())
}

// errUnexpected marks what a test did not expect.
var errUnexpected = errors.New("unexpected")

package golden_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/crdver/kubectl-crdver/pkg/cmd"
)

var update = flag.Bool("update", false, "write what the commands print into the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"crdver": crdver})
}

// crdver is the plugin, as main runs it.
func crdver() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	root := cmd.NewRootCommand(streams, cmd.WithVersion("v1.2.3"))
	root.SetArgs(os.Args[1:])
	err := root.ExecuteContext(context.Background())
	cmd.PrintError(os.Stderr, err)
	os.Exit(cmd.ExitCode(err)) //nolint:forbidigo // this is the main of the plugin, for the tests
}

// TestScripts runs the scripts. "exits CODE crdver ..." is a command that must
// end with that code; what comes out of any is compared with "cmp".
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                filepath.Join("testdata", "script"),
		UpdateScripts:      *update,
		RequireUniqueNames: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"unescape": unescape,
		},
		Setup: func(env *testscript.Env) error {
			// Nothing of the machine's own configuration.
			env.Setenv("KUBECONFIG", filepath.Join(env.WorkDir, "no-kubeconfig"))
			env.Setenv("HOME", env.WorkDir)
			testdata, err := filepath.Abs(filepath.Join("..", "..", "..", "testdata"))
			env.Setenv("TESTDATA", testdata)
			return err
		},
	})
}

// exits runs a command that must end with an exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d", code)
	}
}

// unescape replaces \e, \xNN and \uNNNN in files by the characters themselves,
// which a script is better without.
func unescape(ts *testscript.TestScript, _ bool, files []string) {
	for _, file := range files {
		path := ts.MkAbs(file)
		text, err := os.ReadFile(path)
		ts.Check(err)
		quoted := regexp.MustCompile(`\\(e|x[0-9a-f]{2}|u[0-9a-f]{4})`).ReplaceAllStringFunc(string(text), func(escape string) string {
			plain, err := strconv.Unquote(`"` + strings.Replace(escape, `\e`, `\x1b`, 1) + `"`)
			ts.Check(err)
			return plain
		})
		ts.Check(os.WriteFile(path, []byte(quoted), 0o600))
	}
}

// TestRealCRDs sorts each manifest of the library next to this repository, and
// compares with what its index says. It is skipped where there is no library.
func TestRealCRDs(t *testing.T) {
	library := filepath.Join("..", "..", "..", "..", "shared", "crds")
	index, err := os.ReadFile(filepath.Join(library, "INDEX.md"))
	if err != nil {
		t.Skip("no ../shared/crds")
	}
	for line := range strings.Lines(string(index)) {
		cells := strings.Split(line, "|")
		if len(cells) < 9 || !strings.HasSuffix(strings.TrimSpace(cells[1]), ".yaml") {
			continue
		}
		file, order, storage := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[6]), strings.TrimSpace(cells[7])
		template := strings.Contains(cells[8], "Helm template")
		t.Run(file, func(t *testing.T) {
			streams, _, out, errOut := genericiooptions.NewTestIOStreams()
			root := cmd.NewRootCommand(streams)
			root.SetArgs([]string{"sort", "-f", filepath.Join(library, file), "-o", "custom-columns=N:.name,S:.storage", "--no-headers"})
			err := root.ExecuteContext(t.Context())
			if template {
				if err == nil || !strings.Contains(err.Error(), "looks like a Helm template; render it first") || out.Len() != 0 {
					t.Errorf("%v\n%s", err, out)
				}
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, errOut)
			}
			var names, stored []string
			for line := range strings.Lines(out.String()) {
				fields := strings.Fields(line)
				names = append(names, fields[0])
				if fields[1] == "true" {
					stored = append(stored, fields[0])
				}
			}
			if got := strings.Join(names, ", "); got != order {
				t.Errorf("order %s, want %s", got, order)
			}
			if !slices.Equal(stored, []string{storage}) {
				t.Errorf("storage %v, want %s", stored, storage)
			}
			// Status reads the same files; it has nothing to say about their order.
			root = cmd.NewRootCommand(streams)
			root.SetArgs([]string{"status", "-f", filepath.Join(library, file), "-o", "wide"})
			if err := root.ExecuteContext(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCases reads the reported failures of the library next to this repository:
// nothing in them may stop a reading command, except what is meant to.
func TestCases(t *testing.T) {
	cases, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "shared", "cases", "*.yaml"))
	if err != nil || len(cases) == 0 {
		t.Skip("no ../shared/cases")
	}
	for _, file := range cases {
		for _, command := range []string{"sort", "status"} {
			streams, _, out, _ := genericiooptions.NewTestIOStreams()
			root := cmd.NewRootCommand(streams)
			root.SetArgs([]string{command, "-f", file, "-o", "wide"})
			err := root.ExecuteContext(t.Context())
			if err != nil && !strings.HasPrefix(err.Error(), "no CustomResourceDefinition in "+file) {
				t.Errorf("%s: %v", command, err)
			}
			if err == nil && strings.ContainsRune(out.String(), '\x1b') {
				t.Errorf("%s of %s prints an escape code", command, file)
			}
		}
	}
}

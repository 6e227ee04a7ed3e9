package cmd_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	crdver "github.com/crdver/kubectl-crdver/pkg/cmd"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

var updateReadme = flag.Bool("update-readme", false, "write the outputs in README.md anew")

const root = "../.."

// TestReadme runs every command of README.md: those of console blocks, one
// after the other, on a cluster like that of make demo, comparing what they
// print; and those of sh blocks as told below.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an API server")
	}
	data, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	startReadmeCluster(t)
	inScratchDir(t)

	lines := strings.Split(string(data), "\n")
	var got []string
	for i := 0; i < len(lines); i++ {
		got = append(got, lines[i])
		switch lines[i] {
		case "```sh":
			for i++; lines[i] != "```"; i++ {
				got = append(got, lines[i])
				runShell(t, lines[i])
			}
			got = append(got, "```")
		case "```console":
			for i++; lines[i] != "```"; i++ {
				command, ok := strings.CutPrefix(lines[i], "$ ")
				if !ok {
					continue // Output, which is made anew.
				}
				got = append(got, lines[i])
				if output := runConsole(t, command); output != "" {
					got = append(got, strings.Split(output, "\n")...)
				}
			}
			got = append(got, "```")
		}
	}
	text := strings.Join(got, "\n")
	if *updateReadme {
		if err := os.WriteFile(filepath.Join(os.Getenv("README_ROOT"), "README.md"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(data), text); diff != "" {
		t.Errorf("README.md is not what the commands print (-README +printed); go test ./pkg/cmd -run TestReadme -update-readme writes it anew:\n%s", diff)
	}
}

// talkTo has commands talk to a server.
func talkTo(t *testing.T, bed testbed.Bed) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := bed.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	t.Setenv("KUBECACHEDIR", t.TempDir())
}

// startReadmeCluster starts what make demo starts.
func startReadmeCluster(t *testing.T) {
	t.Helper()
	bed, err := testbed.StartInProcess(t.Context(), testbed.InProcessOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Stop)
	talkTo(t, bed)
	config := bed.Config()
	config.UserAgent = "kubectl/v1.37.2" // Whose name is the field manager.
	if _, err := testbed.CreateCRD(t.Context(), config, testbed.CronTabs("v1beta1", "v1")); err != nil {
		t.Fatal(err)
	}
	if err := testbed.CreateObjects(t.Context(), config, testbed.CronTabResource("v1beta1"), 200, testbed.ObjectOptions{}); err != nil {
		t.Fatal(err)
	}
}

// inScratchDir changes into a folder that looks like the root of the checkout,
// but takes what the commands write.
func inScratchDir(t *testing.T) {
	t.Helper()
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"testdata", "README.md", "Makefile"} {
		if err := os.Symlink(filepath.Join(abs, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("README_ROOT", abs)
	t.Chdir(dir)
}

// runConsole runs "kubectl crdver ..." and returns what a terminal would show,
// without what differs from run to run.
func runConsole(t *testing.T, command string) string {
	t.Helper()
	words, err := split(command)
	if err != nil || len(words) < 2 || words[0] != "kubectl" || words[1] != "crdver" {
		t.Fatalf("cannot run %q: %v", command, err)
	}
	var out testbed.Output
	plugin := crdver.NewRootCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, crdver.WithVersion("v0.1.0"))
	plugin.SetArgs(words[2:])
	crdver.PrintError(&out, plugin.ExecuteContext(t.Context()))
	return strings.TrimRight(normalize(out.String()), "\n")
}

// normalize replaces ports, times, builds and platforms.
func normalize(text string) string {
	for _, r := range [][2]string{
		{`https://127\.0\.0\.1:\d+`, "https://127.0.0.1:6443"},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, "2026-11-30T12:00:00Z"},
		{`, last \d{4}-\d\d-\d\d\)`, ", last 2026-11-30)"},
		{`(\d+) objects: (\d+) rewritten, (\d+) already current`, "$1 objects: $1 rewritten"},
		{`\d+[ms](\d+s)? +managed-fields `, "12s         managed-fields "},
		{`used it (\d+m)?\d+s ago`, "used it 12s ago"},
		{`[\w.-]+@[\w.-]+, process \d+`, "alice@laptop, process 4242"},
		{`(?m)was not served from (\S+) for \d+s$`, "was not served from $1 for 2s"},
		{`(linux|darwin|windows)/(amd64|arm64)`, "linux/amd64"},
		{`go1\.\d+(\.\d+)?`, "go1.26"},
	} {
		text = regexp.MustCompile(r[0]).ReplaceAllString(text, r[1])
	}
	// How far a slow step is comes only where it is slow.
	howFar := regexp.MustCompile(`^ +\d+ of \d+(, .*)?$`)
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		if !howFar.MatchString(line) {
			lines = append(lines, strings.TrimRight(line, " "))
		}
	}
	return strings.Join(lines, "\n")
}

// runShell runs a command of an sh block, or says which test does.
func runShell(t *testing.T, command string) {
	t.Helper()
	checkout := os.Getenv("README_ROOT")
	switch command {
	case "make demo":
		runMake(t, checkout, "demo")
	case "make test":
		// This is it; only that the target exists is left to see.
		runMake(t, checkout, "--dry-run", "test")
	case "make install PREFIX=$HOME/.local":
		prefix := t.TempDir()
		runMake(t, checkout, "install", "PREFIX="+prefix)
		out, err := exec.CommandContext(t.Context(), filepath.Join(prefix, "bin", "kubectl-crdver"), "version", "--client").CombinedOutput()
		if err != nil {
			t.Errorf("the installed plugin: %v\n%s", err, out)
		}
	case "kubectl krew index add crdver https://github.com/crdver/kubectl-crdver.git", "kubectl krew install crdver/crdver":
		// plugins/krew_test.go does both, with a clone of this checkout.
	default:
		t.Errorf("nothing runs %q of README.md", command)
	}
}

func runMake(t *testing.T, dir string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "make", append([]string{"-C", dir}, args...)...).CombinedOutput()
	if err != nil {
		t.Errorf("make %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// split splits a command as a shell does, as far as README.md needs it.
func split(command string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	started := false
	for _, r := range command {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, started = r, true
		case r == ' ':
			if started {
				words = append(words, word.String())
			}
			word.Reset()
			started = false
		case strings.ContainsRune("$`\\|&;<>", r):
			return nil, fmt.Errorf("%q needs a real shell", r)
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if quote != 0 {
		return nil, errors.New("unfinished quote")
	}
	if started {
		words = append(words, word.String())
	}
	return words, nil
}

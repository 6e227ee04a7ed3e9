//go:build controlplane

package plugins_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// testVersion is the version of the archive that the test builds.
const testVersion = "v9.8.7-krewtest.1"

// maxBinary is the budget of the stripped binary, in bytes.
const maxBinary = 60_000_000

// command runs a program and returns what it wrote to stdout.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	var stdout, stderr strings.Builder
	program := exec.CommandContext(t.Context(), name, args...)
	program.Dir, program.Stdout, program.Stderr = dir, &stdout, &stderr
	program.Env = append(os.Environ(), env...)
	if err := program.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// release builds the archive of this machine's platform with the release
// program and returns the folder that holds it and the archive.
func release(t *testing.T) (dist, archive string) {
	t.Helper()
	dist = filepath.Join(t.TempDir(), "dist")
	host := runtime.GOOS + "/" + runtime.GOARCH
	t.Log(command(t, "..", nil, "go", "run", "./cmd/crdver-release", "-version", testVersion, "-out", dist, "-platforms", host))
	archives, err := filepath.Glob(filepath.Join(dist, "kubectl-crdver_"+testVersion+"_*"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("archives %v (%v)", archives, err)
	}
	return dist, archives[0]
}

// TestKrew walks the way of a user: krew installs the archive, kubectl finds
// the plugin, the caveats' command turns completion on.
func TestKrew(t *testing.T) {
	tools := t.TempDir()
	command(t, filepath.Join("..", "testdata", "krew"), nil, "go", "build", "-o", tools+string(filepath.Separator),
		"sigs.k8s.io/krew/cmd/krew", "sigs.k8s.io/krew/cmd/validate-krew-manifest")
	dist, archive := release(t)
	manifestFile := filepath.Join(dist, "crdver.yaml")

	// krew names the rules that krew-index checks in a submission.
	validate := filepath.Join(tools, "validate-krew-manifest")
	command(t, "", nil, validate, "-skip-install", "-manifest", manifestFile)
	command(t, "", nil, validate, "-skip-install", "-manifest", "crdver.yaml")

	root := t.TempDir()
	bin := filepath.Join(root, "bin")
	env := []string{
		"KREW_ROOT=" + root, "KREW_NO_UPGRADE_CHECK=1", "HOME=" + t.TempDir(),
		"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		"KUBECONFIG=" + filepath.Join(root, "none"),
	}
	krew := filepath.Join(tools, "krew")
	command(t, "", env, krew, "install", "--manifest", manifestFile, "--archive", archive)
	if _, err := os.Stat(filepath.Join(root, "receipts", "crdver.yaml")); err != nil {
		t.Errorf("krew kept no receipt: %v", err)
	}
	store := filepath.Join(root, "store", "crdver", testVersion)
	for _, name := range []string{"LICENSE", "kubectl-crdver", "kubectl_complete-crdver"} {
		if info, err := os.Stat(filepath.Join(store, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s was not installed (%v)", name, err)
		}
	}
	if info, err := os.Stat(filepath.Join(store, "kubectl-crdver")); err != nil || info.Size() > maxBinary {
		t.Errorf("the binary has %d bytes, more than the budget of %d (%v)", info.Size(), maxBinary, err)
	}
	wantVersion := "Client Version: " + testVersion + "\n"
	if got := command(t, "", env, filepath.Join(bin, "kubectl-crdver"), "version", "--client"); got != wantVersion {
		t.Errorf("got %q, want %q", got, wantVersion)
	}

	t.Run("kubectl", func(t *testing.T) { testKubectl(t, root, env, wantVersion) })
	t.Run("index", func(t *testing.T) { testIndex(t, krew, env) })

	command(t, "", env, krew, "uninstall", "crdver")
	if _, err := os.Lstat(filepath.Join(bin, "kubectl-crdver")); !os.IsNotExist(err) {
		t.Errorf("after uninstalling: %v", err)
	}
}

// testKubectl calls the installed plugin through kubectl.
func testKubectl(t *testing.T, root string, env []string, wantVersion string) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	kubectl := filepath.Join(assets, "kubectl")
	if _, err := os.Stat(kubectl); assets == "" || err != nil {
		t.Skip("KUBEBUILDER_ASSETS holds no kubectl")
	}
	if got := command(t, "", env, kubectl, "crdver", "version", "--client"); got != wantVersion {
		t.Errorf("got %q, want %q", got, wantVersion)
	}
	// The exit code of the plugin is that of kubectl.
	misspelt := exec.CommandContext(t.Context(), kubectl, "crdver", "versoin")
	misspelt.Env = append(os.Environ(), env...)
	if out, _ := misspelt.CombinedOutput(); misspelt.ProcessState.ExitCode() != 1 || !strings.HasPrefix(string(out), "error: unknown command \"versoin\"; did you mean") {
		t.Errorf("exit code %d, output %q", misspelt.ProcessState.ExitCode(), out)
	}
	help := command(t, "", env, kubectl, "crdver", "--help")
	if !strings.Contains(help, "kubectl crdver COMMAND") {
		t.Errorf("help\n%s", help)
	}

	const verb, flag = "version\tPrint the version of the plugin and of the server\n", "--client\tPrint the plugin's version only"
	completes := func(env []string) bool {
		words := command(t, "", env, kubectl, "__complete", "crdver", "")
		flags := command(t, "", env, kubectl, "__complete", "crdver", "version", "--cl")
		return strings.Contains(words, verb) && strings.HasSuffix(words, "\n:4\n") && strings.Contains(flags, flag)
	}
	if completes(env) {
		t.Error("completion works without the shim: the test proves nothing")
	}
	// Who unpacks the archive by hand has the shim beside the plugin.
	store := filepath.Join(root, "store", "crdver", testVersion)
	if !completes(append(env, "PATH="+store+string(os.PathListSeparator)+os.Getenv("PATH"))) {
		t.Error("kubectl does not complete with the shim of the archive")
	}
	command(t, "", env, "sh", "-ec", caveatsCommand(t))
	if !completes(env) {
		t.Error("kubectl does not complete after the command in the caveats")
	}
}

// caveatsCommand returns the command that the caveats tell krew's users to run.
func caveatsCommand(t *testing.T) string {
	t.Helper()
	m, _ := readManifest(t, "crdver.yaml")
	for line := range strings.SplitSeq(m.Spec.Caveats, "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "ln ") {
			return line
		}
	}
	t.Fatal("the caveats hold no command")
	return ""
}

// testIndex adds this repository to krew as an index of its own.
func testIndex(t *testing.T, krew string, env []string) {
	repository := t.TempDir()
	if err := os.CopyFS(filepath.Join(repository, "plugins"), os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) {
		t.Helper()
		command(t, repository, env, "git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
	}
	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "--message", "index")
	command(t, "", env, krew, "index", "add", "own", repository)
	m, _ := readManifest(t, "crdver.yaml")
	info := command(t, "", env, krew, "info", "own/crdver")
	for _, want := range []string{"NAME: crdver", "INDEX: own", "VERSION: " + m.Spec.Version} {
		if !strings.Contains(info, want) {
			t.Errorf("krew info lacks %q:\n%s", want, info)
		}
	}
}

//go:build controlplane

package fulltest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func pluginScenarios() []scenario {
	return []scenario{{name: "dispatch", run: testDispatch}}
}

// testDispatch runs the built plugin through the real kubectl.
func testDispatch(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "dispatch.example.com", 2, "v1beta1", "v1")
	kubectl, err := bed.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	plugin, err := testbed.BuildPlugin(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(plugin, filepath.Join(dir, "kubectl_complete-crdver")); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) result {
		t.Helper()
		command := exec.CommandContext(t.Context(), kubectl, args...)
		command.Env = append(os.Environ(), "PATH="+dir, "KUBECONFIG="+s.kubeconfig, "KUBECACHEDIR="+filepath.Join(dir, "cache"), "HOME="+dir)
		var out, errOut strings.Builder
		command.Stdout, command.Stderr = &out, &errOut
		_ = command.Run() // The exit code says it.
		return result{code: command.ProcessState.ExitCode(), stdout: out.String(), stderr: errOut.String(), args: args}
	}
	for _, args := range [][]string{
		{"crdver", "sort", s.name},
		{"crdver", "sort", s.name, "--context", "testbed"},
		{"crdver", "sort", s.name, "--context=testbed", "--namespace", "other"},
		{"crdver", "sort", s.name, "--as", "somebody", "--as-group", "system:masters"},
		{"crdver", "status", "crontab.dispatch.example.com"},
		{"crdver", "promote", "v1", s.name, "--dry-run=server", "-n", "other"},
	} {
		r := run(args...)
		r.want(t, 0, s.name, "v1beta1")
		if r.stderr != "" {
			t.Errorf("%q says %q", args, r.stderr)
		}
	}
	run("crdver", "sort", s.name, "--context", "nowhere").want(t, 1, `context "nowhere" does not exist`)
	run("crdver", "sort", s.name, "--as", "somebody").want(t, 1, "somebody", "cannot get resource")
	run("crdver", "promote", "v1", s.name, "--as", "somebody", "--yes").want(t, 3, "get customresourcedefinitions.apiextensions.k8s.io "+s.name)
	run("crdver", "promote", "v1", s.name).want(t, 3, "no terminal", "--yes")
	run("crdver", "--help").want(t, 0, "kubectl crdver COMMAND")
	run("plugin", "list").want(t, 0, plugin)
	run("__complete", "crdver", "promote", "v").want(t, 0, "v1beta1")

	// A namespace narrows a migration, and only that.
	s.stored(t, map[string]int{"v1beta1": 2})
	run("crdver", "promote", "v1", s.name, "--yes", "--until", "set-storage").want(t, 0, "to continue: kubectl crdver promote v1 "+s.name)
	run("crdver", "migrate", s.name, "--yes", "-n", "other").want(t, 0)
	run("crdver", "promote", "v1", s.name, "--yes").want(t, 0, "promoted to v1")
	s.stored(t, map[string]int{"v1": 2})
}

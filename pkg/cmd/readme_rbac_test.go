//go:build controlplane

package cmd_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestReadmeRBAC gives the objects of README.md to a whole control plane, and says
// that the account of the jobs may do what preflight does, and with what it may
// do less the verdict is not made up.
func TestReadmeRBAC(t *testing.T) {
	bed, err := testbed.StartFull(t.Context(), testbed.FullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Stop)
	talkTo(t, bed)
	if _, err := testbed.CreateCRD(t.Context(), bed.Config(), testbed.CronTabs("v1beta1", "v1")); err != nil {
		t.Fatal(err)
	}
	if err := testbed.CreateObjects(t.Context(), bed.Config(), testbed.CronTabResource("v1beta1"), 10, testbed.ObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	kubectl, err := bed.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	apply := func(text string, args ...string) {
		command := exec.CommandContext(t.Context(), kubectl, append([]string{"apply", "--validate=strict", "-f", "-"}, args...)...)
		command.Stdin, command.Env = strings.NewReader(text), os.Environ()
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, out, text)
		}
	}
	blocks := map[string]string{}
	for _, block := range readmeBlocks(t, "yaml") {
		name, _, _ := strings.Cut(block, "\n")
		blocks[name] = block
	}
	apply(blocks["# crdver-rbac.yaml"])
	apply(blocks["# crdver-preflight.yaml"], "--dry-run=server")
	inScratchDir(t)
	as := " --as system:serviceaccount:crdver:preflight"
	out := runConsole(t, "kubectl crdver preflight -f testdata/formats/next"+as)
	if !strings.Contains(out, "crontabs.stable.example.com: ok after 2 steps\n") || strings.Contains(out, "forbidden") || !strings.Contains(out, "10 objects held against the new schema: all fit") {
		t.Errorf("with the account:\n%s", out)
	}
	out = runConsole(t, "kubectl crdver preflight -f testdata/formats/crds"+as)
	if !strings.Contains(out, "backups.example.com: ok (new)\n") {
		t.Errorf("a new CRD with the account:\n%s", out)
	}
}

package e2e_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// hold returns what the annotation of a CRD says, nil without one.
func (b *bed) hold(t *testing.T, name string) *v1alpha1.Hold {
	t.Helper()
	found, err := b.crds(t).ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hold, err := lifecycle.ReadHold(found.Annotations)
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

// setHold writes the annotation of a run that there is not.
func (b *bed) setHold(t *testing.T, name, text string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{lifecycle.HoldAnnotation: text}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.crds(t).ApiextensionsV1().CustomResourceDefinitions().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

const elsewhere = `{"id":"1","holder":"bob@elsewhere, process 7","process":{"machine":"another","pid":7,"start":"1"},` +
	`"command":"promote v1","startedAt":"2026-01-02T03:04:05Z","renewedAt":"2026-01-02T03:05:05Z","ttlSeconds":2,` +
	`"progress":{"generation":1,"storageVersion":"v1","storedVersions":["v1"],"endpoint":"v1","done":5,"total":20}}`

// TestSecondRunStops starts a second run while another one, on another machine, is
// at work: it says who, changes nothing, and takes over only from one that is not
// heard of for as long as it said.
func TestSecondRunStops(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "held.example.com"
	name := b.scene(t, group, 20)
	b.setHold(t, name, elsewhere)
	before := b.revisions(t)
	for _, args := range [][]string{
		{"promote", "v1", name, "--yes"}, {"migrate", name, "--yes", "--force"}, {"deprecate", "v1beta1", name, "--yes"},
	} {
		got := b.must(t, 3, args...)
		contains(t, got.stderr, `another run is at work: bob@elsewhere, process 7 runs "promote v1" since 2026-01-02T03:04:05Z`,
			"5 of 20 objects", "--take-over")
	}
	b.wantUnwritten(t, before)
	contains(t, b.must(t, 0, "status", name).stdout, "at work: bob@elsewhere, process 7")

	// Where nothing is left to do for itself, it says so, and who is still at it.
	done := b.createCRD(t, crontabs("done.example.com", "v1"))
	b.setHold(t, done, elsewhere)
	for _, args := range [][]string{{"migrate", done, "--yes"}, {"promote", "v1", done, "--yes"}} {
		got := b.must(t, 0, args...)
		contains(t, got.stderr, "Nothing to do.", `Warning: another run is at work: bob@elsewhere, process 7 runs "promote v1" since `)
	}
	got := b.must(t, 0, "migrate", "--group", "done.example.com")
	contains(t, got.stderr, "Nothing to migrate: ", "Warning: another run is at work on "+done+": bob@elsewhere, process 7")

	// It is heard of while the second run watches.
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		for i := 0; ctx.Err() == nil; i++ {
			b.setHold(t, name, strings.Replace(elsewhere, `"done":5`, `"done":`+string(rune('0'+i%10)), 1))
			time.Sleep(200 * time.Millisecond)
		}
	}()
	got = b.must(t, 3, "promote", "v1", name, "--yes", "--take-over")
	stop()
	contains(t, got.stderr, "was just heard of")
	b.wantStored(t, group, map[string]int{"v1beta1": 20})

	// It is not.
	time.Sleep(300 * time.Millisecond)
	got = b.must(t, 0, "promote", "v1", name, "--yes", "--take-over")
	contains(t, got.stderr, "taking over from bob@elsewhere, process 7 if it is not heard of for 2s")
	b.wantStored(t, group, map[string]int{"v1": 20})
	if hold := b.hold(t, name); hold != nil {
		t.Errorf("left behind: %+v", hold)
	}

	// What cannot be read is no reason to go on.
	for _, text := range []string{"{", "{}", "null", ""} {
		b.setHold(t, name, text)
		contains(t, b.must(t, 3, "migrate", name, "--yes", "--force").stderr, "cannot be read", "kubectl annotate crd "+name+" "+lifecycle.HoldAnnotation+"-")
	}

	// An empty value narrows nothing, and is not taken for "everything".
	for _, flag := range []string{"shard", "retry-from", "manifest", "report", "namespace", "selector", "namespaces-first"} {
		contains(t, b.must(t, 1, "migrate", name, "--yes", "--"+flag+"=").stderr, "--"+flag+" is empty")
	}
}

// migrating starts a promotion in a process of its own, and waits until it rewrites.
func (b *bed) migrating(t *testing.T, name string) (*exec.Cmd, *testbed.Output) {
	t.Helper()
	var errOut testbed.Output
	run := exec.CommandContext(t.Context(), binary(t), "promote", "v1", name, "--yes", "--qps", "20", "--progress", "json", "--kubeconfig", b.kubeconfig)
	run.Stderr = &errOut
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return strings.Contains(errOut.String(), `"step":"migrate"`) })
	return run, &errOut
}

// TestStoppedRunWakesUp stops a run in the middle, has another one take its place,
// and lets the first go on: it does nothing more.
func TestStoppedRunWakesUp(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "asleep.example.com"
	name := b.scene(t, group, 120)
	first, errOut := b.migrating(t, name)
	if err := first.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	hold := b.hold(t, name)
	if hold == nil || hold.Command != "promote v1" || hold.Process == nil || hold.Process.PID != first.Process.Pid {
		t.Fatalf("hold is %+v", hold)
	}
	// It is there, although it does nothing: only time tells.
	contains(t, b.must(t, 3, "promote", "v1", name, "--yes").stderr, "another run is at work: ")
	hold.TTLSeconds = 1
	b.setHold(t, name, lifecycle.HoldText(*hold))
	b.must(t, 0, "promote", "v1", name, "--yes", "--take-over")
	b.wantStored(t, group, map[string]int{"v1": 120})
	b.must(t, 0, "retire", "v1beta1", name, "--yes", "--until", "unserve")
	before := b.revisions(t)

	if err := first.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	if code := first.ProcessState.ExitCode(); code != 3 {
		t.Errorf("exit code %d: %s", code, errOut.String())
	}
	b.wantUnwritten(t, before)
}

// TestKilledRunIsFollowed kills a run. On the same machine the next one sees that it
// is gone and does not have to wait.
func TestKilledRunIsFollowed(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "followed.example.com"
	name := b.scene(t, group, 80)
	first, _ := b.migrating(t, name)
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	if b.hold(t, name) == nil {
		t.Fatal("a run that is killed leaves its hold")
	}
	contains(t, b.must(t, 0, "status", name).stdout, ` ran "promote v1" since `, "but its process is gone; the next run takes over")
	contains(t, b.must(t, 0, "promote", "v1", name, "--yes").stderr, "was ended before it was done: taking over")
	b.wantStored(t, group, map[string]int{"v1": 80})
	if hold := b.hold(t, name); hold != nil {
		t.Errorf("left behind: %+v", hold)
	}
}

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// terminal is the plugin at work on a pseudo-terminal.
type terminal struct {
	t       *testing.T
	command *exec.Cmd
	master  *os.File
	screen  testbed.Output
	stdout  bytes.Buffer
	drained chan struct{}
}

// openTerminal starts the binary with a pseudo-terminal as its standard input
// and error, and a pipe as its standard output.
func (b *bed) openTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	return b.openTerminalOf(t, 120, args...)
}

// openTerminalOf is openTerminal with a number of columns.
func (b *bed) openTerminalOf(t *testing.T, columns uint16, args ...string) *terminal {
	t.Helper()
	path := binary(t)
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	// Without a width there is no room for a bar.
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close() //nolint:errcheck // there is nobody to tell
	x := &terminal{t: t, master: master, drained: make(chan struct{})}
	x.command = exec.CommandContext(t.Context(), path, append(args, "--kubeconfig", b.kubeconfig)...)
	x.command.Stdin, x.command.Stdout, x.command.Stderr = slave, &x.stdout, slave
	x.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := x.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(x.drained)
		_, _ = io.Copy(&x.screen, master) // It ends with EIO when the other side is closed.
	}()
	return x
}

// expect waits until the screen shows a text.
func (x *terminal) expect(text string) {
	x.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !strings.Contains(x.screen.String(), text) {
		select {
		case <-x.drained:
			x.t.Fatalf("it ended, and %q is not on the screen:\n%s", text, x.screen.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			x.t.Fatalf("%q is not on the screen:\n%s", text, x.screen.String())
		}
	}
}

// answer types something.
func (x *terminal) answer(keys string) {
	x.t.Helper()
	if _, err := io.WriteString(x.master, keys); err != nil {
		x.t.Fatal(err)
	}
}

// end waits for the end and checks the exit code.
func (x *terminal) end(code int) {
	x.t.Helper()
	_ = x.command.Wait() // The exit code says it.
	<-x.drained
	if got := x.command.ProcessState.ExitCode(); got != code {
		x.t.Errorf("want exit code %d, got %d\n--- stdout\n%s--- screen\n%s", code, got, x.stdout.String(), x.screen.String())
	}
}

const (
	ctrlC  = "\x03"
	ctrlD  = "\x04"
	prompt = "(context testbed)? [y/N] "
	second = "Type yes to go on: "
)

func TestPromptOnATerminal(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	for i, test := range []struct {
		name    string
		answers []string
		code    int
		shows   string
		// stored and served are storedVersions and the versions afterwards.
		stored string
	}{
		{"n", []string{"n\r"}, 3, "declined: nothing was changed", "v1beta1"},
		{"only return", []string{"\r"}, 3, "declined: nothing was changed", "v1beta1"},
		{"something else", []string{"yesterday\r"}, 3, "declined: nothing was changed", "v1beta1"},
		{"end of file", []string{ctrlD}, 3, "declined: nothing was changed", "v1beta1"},
		{"Ctrl-C", []string{ctrlC}, 130, "interrupted", "v1beta1"},
		{"y and yes", []string{"y\r", "yes\r"}, 0, "[6/6] trim", "v1"},
		{"YES and yes", []string{"YES\r", "yes\r"}, 0, "[6/6] trim", "v1"},
		{"y and y", []string{"y\r", "y\r"}, 3, "declined", "v1beta1,v1"},
		{"y and end of file", []string{"y\r", ctrlD}, 3, "declined", "v1beta1,v1"},
		{"y and Ctrl-C", []string{"y\r", ctrlC}, 130, "to continue: kubectl crdver promote v1", "v1beta1,v1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			group := fmt.Sprintf("prompt%d.example.com", i)
			name := b.scene(t, group, 5)
			before := b.crd(t, name)
			x := b.openTerminal(t, "promote", "v1", name)
			for i, answer := range test.answers {
				x.expect([]string{prompt, second}[i])
				if i == 0 {
					contains(t, x.screen.String(), "Plan: promote v1 of "+name)
				}
				x.answer(answer)
			}
			x.end(test.code)
			contains(t, x.screen.String(), test.shows)
			after := b.crd(t, name)
			if got := strings.Join(after.Status.StoredVersions, ","); got != test.stored {
				t.Errorf("storedVersions are %s, want %s", got, test.stored)
			}
			if len(test.answers) == 1 && (before.ResourceVersion != after.ResourceVersion || x.stdout.Len() > 0) {
				t.Errorf("the CRD was changed, or something printed: %s", x.stdout.String())
			}
			if test.code == 0 {
				contains(t, x.stdout.String(), "promoted to v1")
			}
		})
	}
	t.Run("retire", func(t *testing.T) {
		t.Parallel()
		const group = "prompt.example.com"
		name := b.scene(t, group, 5)
		b.must(t, 0, "promote", "v1", name, "--yes")
		x := b.openTerminal(t, "retire", "v1beta1", name, "--allow-in-use")
		x.expect(prompt)
		x.answer("y\r")
		x.expect(second)
		x.answer("no\r")
		x.end(3)
		b.wantVersions(t, name, []string{"v1beta1 unserved", "v1 storage"}, []string{"v1"})
		x = b.openTerminal(t, "retire", "v1beta1", name, "--allow-in-use")
		x.expect(prompt)
		x.answer("y\r")
		x.expect("remove v1beta1 from spec.versions: this cannot be undone. " + second)
		x.answer("yes\r")
		x.end(0)
		b.wantVersions(t, name, []string{"v1 storage"}, []string{"v1"})
	})
	t.Run("nothing to do", func(t *testing.T) {
		t.Parallel()
		name := b.createCRD(t, crontabs("idle.example.com", "v1"))
		x := b.openTerminal(t, "promote", "v1", name)
		x.end(0)
		if strings.Contains(x.screen.String(), "[y/N]") {
			t.Error("it asked, although there is nothing to do")
		}
	})
}

// TestNarrowTerminal has a plan and the progress fit a small terminal, and what goes to
// a pipe stay as it is.
func TestNarrowTerminal(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.scene(t, "narrow.example.com", 5)
	x := b.openTerminalOf(t, 40, "promote", "v1", name, "--dry-run=client")
	x.end(0)
	contains(t, x.stdout.String(), "     why     objects are written at v1beta1; from now on every write persists v1\n")
	x = b.openTerminalOf(t, 40, "promote", "v1", name, "--yes", "--progress", "plain")
	x.end(0)
	contains(t, x.screen.String(), "     why     objects are written at\r\n             v1beta1; from now on every\r\n",
		"[4/6] rewrite all objects at v1 with\r\n      no-op patches through v1\r\n")
	for line := range strings.Lines(x.screen.String()) {
		if line = strings.TrimRight(line, "\r\n"); len(line) > 40 && len(strings.Fields(line)) > 2 && !strings.Contains(line, "kubectl crdver") {
			t.Errorf("longer than the terminal: %q", line)
		}
	}
	contains(t, x.stdout.String(), "proof: pass 1 over 5 objects found every one stored at v1 (CRD generation 2)\n")
}

// TestPlanningOnATerminal has a rehearsal that takes its time: the plan that waits
// for it is announced, with a bar, on standard error; --progress says otherwise.
func TestPlanningOnATerminal(t *testing.T) {
	t.Parallel()
	const objects = 100
	b := start(t, testbed.InProcessOptions{Middleware: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPatch && r.URL.Query().Get("dryRun") != "" {
				time.Sleep(15 * time.Millisecond) // A server that is slow.
			}
			next.ServeHTTP(w, r)
		})
	}})
	name := b.scene(t, "planning.example.com", objects)
	announced := "Rehearsing the rewrite of " + name + " for the plan (server dry run)"
	for mode, shows := range map[string]bool{"auto": true, "none": false} {
		x := b.openTerminal(t, "promote", "v1", name, "--concurrency", "1", "--progress", mode)
		x.expect(prompt)
		before, _, _ := strings.Cut(x.screen.String(), "Plan: promote")
		if strings.Contains(before, announced) != shows || strings.Contains(before, fmt.Sprintf("/%d", objects)) != shows {
			t.Errorf("--progress %s shows %q before the plan", mode, before)
		}
		x.answer("n\r")
		x.end(3)
		if x.stdout.Len() > 0 {
			t.Errorf("standard output: %s", x.stdout.String())
		}
	}
	events := 0
	for line := range strings.Lines(b.must(t, 0, "promote", "v1", name, "--concurrency", "1", "--progress", "json", "--dry-run=server").stderr) {
		var event v1alpha1.Event
		if json.Unmarshal([]byte(line), &event) == nil && event.Type == v1alpha1.EventProgress && event.CRD == name && event.Step == "rehearse" && event.Progress.Total == objects {
			events++
		}
	}
	if events == 0 || events > objects/2 {
		t.Errorf("%d events while it plans", events)
	}
}

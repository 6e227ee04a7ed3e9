package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestArguments(t *testing.T) {
	for name, test := range map[string]struct{ argv, want []string }{
		"no name":             {nil, []string{}},
		"no arguments":        {[]string{"kubectl-crdver"}, []string{}},
		"arguments":           {[]string{"/usr/bin/kubectl-crdver", "sort", "-o", "json"}, []string{"sort", "-o", "json"}},
		"completion":          {[]string{"/usr/bin/kubectl_complete-crdver", "promote", ""}, []string{"__complete", "promote", ""}},
		"completion.exe":      {[]string{"kubectl_complete-crdver.EXE", "so"}, []string{"__complete", "so"}},
		"completion, no word": {[]string{"kubectl_complete-crdver"}, []string{"__complete", ""}},
		"another name":        {[]string{"kubectl_complete-crdver2", "so"}, []string{"so"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := arguments(test.argv); !slices.Equal(got, test.want) || got == nil {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func noExit(t *testing.T) func(int) {
	return func(code int) { t.Errorf("exit(%d) was called", code) }
}

func TestRunCompletion(t *testing.T) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	if code := run(streams, []string{completionName, "vers"}, nil, noExit(t)); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if want := "version\tPrint the version of the plugin and of the server\n:4\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestRunError(t *testing.T) {
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	if code := run(streams, []string{"kubectl-crdver", "nonsense"}, nil, noExit(t)); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if want := "error: unknown command \"nonsense\"\nSee 'kubectl crdver --help' for usage.\n"; errOut.String() != want || out.Len() != 0 {
		t.Errorf("stderr %q, stdout %q", errOut.String(), out.String())
	}
}

func TestFirstSignalCancels(t *testing.T) {
	t.Setenv("KUBECACHEDIR", t.TempDir())
	signals := make(chan os.Signal, 2)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		signals <- os.Interrupt
		<-r.Context().Done()
	}))
	defer server.Close()
	streams, _, _, errOut := genericiooptions.NewTestIOStreams()
	if code := run(streams, []string{"kubectl-crdver", "version", "--server", server.URL}, signals, noExit(t)); code != 130 {
		t.Errorf("exit code %d", code)
	}
	if want := "error: reading the server's version: interrupted\n"; errOut.String() != want {
		t.Errorf("stderr %q, want %q", errOut.String(), want)
	}
}

// lockedWriter is safe to write to from the goroutine that watches signals.
type lockedWriter struct {
	lock sync.Mutex
	text strings.Builder
}

func (w *lockedWriter) Write(text []byte) (int, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.text.Write(text)
}

func (w *lockedWriter) String() string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.text.String()
}

// TestLaterSignalExits sends the first signal twice, as timeout(1) does: that is one
// interrupt. Only one that comes a while later ends the process at once.
func TestLaterSignalExits(t *testing.T) {
	t.Parallel()
	signals, exits, errOut := make(chan os.Signal, 2), make(chan int, 1), &lockedWriter{}
	canceled := make(chan struct{})
	go watchSignals(t.Context(), func() { close(canceled) }, signals, io.Writer(errOut), func(code int) { exits <- code })
	signals <- syscall.SIGTERM
	signals <- syscall.SIGTERM
	<-canceled
	select {
	case code := <-exits:
		t.Fatalf("exit code %d at once", code)
	case <-time.After(patience + 200*time.Millisecond):
	}
	if !strings.Contains(errOut.String(), "interrupt again") {
		t.Errorf("stderr %q", errOut.String())
	}
	signals <- os.Interrupt
	if code := <-exits; code != 130 {
		t.Errorf("exit code %d", code)
	}
}

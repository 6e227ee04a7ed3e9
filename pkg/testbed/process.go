package testbed

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// stopTimeout is how long a child may take to stop before it is killed.
const stopTimeout = 10 * time.Second

// tailSize is how much of a child's output is kept for error messages.
const tailSize = 8 << 10

// process is a running child. It is always reaped: a goroutine waits for it from
// the start on, and on Linux the kernel kills it when this process dies.
type process struct {
	name string
	cmd  *exec.Cmd
	tail *tail
	done chan struct{}
	err  error // Of Wait; set when done is closed.
}

// startProcess starts a child. Its output goes to log, when there is one.
func startProcess(log io.Writer, path string, args ...string) (*process, error) {
	p := &process{name: filepath.Base(path), tail: &tail{}, done: make(chan struct{})}
	p.cmd = exec.Command(path, args...) //nolint:noctx // A child outlives the context of its start.
	p.cmd.Stdout, p.cmd.Stderr = p.tail, p.tail
	if log != nil {
		output := &prefixWriter{prefix: p.name + ": ", to: log}
		p.cmd.Stdout = io.MultiWriter(p.tail, output)
		p.cmd.Stderr = p.cmd.Stdout
	}
	killWithParent(p.cmd)

	started := make(chan error, 1)
	go func() {
		// The signal that a child gets when its parent dies comes when the thread
		// that started it dies: this thread has to stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	return p, nil
}

// failed returns an error when the child has ended.
func (p *process) failed() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s has ended (%s): %s", p.name, p.cmd.ProcessState, p.tail)
	default:
		return nil
	}
}

// stop asks the child to end, kills it when it does not, and waits for its end.
func (p *process) stop(ctx context.Context) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // It may have ended.
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
	case <-ctx.Done():
		p.kill()
	}
}

// kill kills the child and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // It may have ended.
	<-p.done
}

// tail keeps the end of what is written to it.
type tail struct {
	mu     sync.Mutex
	buffer []byte
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buffer = append(t.buffer, b...)
	if excess := len(t.buffer) - tailSize; excess > 0 {
		t.buffer = append([]byte(nil), t.buffer[excess:]...)
	}
	return len(b), nil
}

// String returns what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buffer))
}

// prefixWriter puts a prefix before each line.
type prefixWriter struct {
	mu     sync.Mutex
	prefix string
	to     io.Writer
	rest   []byte
}

// Write implements io.Writer.
func (w *prefixWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, b...)
	for {
		end := bytes.IndexByte(w.rest, '\n')
		if end < 0 {
			return len(b), nil
		}
		line := append([]byte(w.prefix), w.rest[:end+1]...)
		w.rest = w.rest[end+1:]
		if _, err := w.to.Write(line); err != nil {
			return len(b), fmt.Errorf("writing a log: %w", err)
		}
	}
}

// executable returns the path of a program in the assets directory.
func executable(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("the control plane is incomplete: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("the control plane is incomplete: %s is not a file", path)
	}
	return path, nil
}

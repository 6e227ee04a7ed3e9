package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// closedPipe is the end to write to of a pipe that nobody reads.
func closedPipe(t *testing.T) *os.File {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = writer.Close() })
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	return writer
}

// TestOutputClosed makes sure that a migration is not ended half-way by readers of
// its output that go away, and that its exit code still tells what came of it.
func TestOutputClosed(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	for i, both := range []bool{false, true} {
		group := fmt.Sprintf("closed%d.example.com", i)
		name := b.scene(t, group, 20)
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), binary(t), "promote", "v1", name, "--yes", "--kubeconfig", b.kubeconfig)
		command.Stderr = writer
		if both { // 2>&1 | head -c 10
			command.Stdout = writer
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadFull(reader, make([]byte, 10))
		_, _ = reader.Close(), writer.Close()
		if err := command.Wait(); err != nil {
			t.Errorf("with standard output closed too, %t: %v", both, err)
		}
		b.wantVersions(t, name, []string{"v1beta1", "v1 storage"}, []string{"v1"})
		b.wantStored(t, group, map[string]int{"v1": 20})
	}
	// Whoever does not get to see the plan has changed nothing.
	const group = "unseen.example.com"
	name := b.scene(t, group, 5)
	before := b.revisions(t)
	command := exec.CommandContext(t.Context(), binary(t), "promote", "v1", name, "--yes", "--kubeconfig", b.kubeconfig)
	command.Stderr = closedPipe(t)
	endsWithReader(t, command)
	b.wantUnwritten(t, before)
}

// endsWithReader makes sure that a command ends because nobody reads, as other tools do.
func endsWithReader(t *testing.T, command *exec.Cmd) {
	t.Helper()
	_ = command.Run() // The state says it.
	status, ok := command.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGPIPE {
		t.Errorf("%s: %s", strings.Join(command.Args[1:], " "), command.ProcessState)
	}
}

// TestReadersClosed has reading commands end with their reader, without a word.
func TestReadersClosed(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.scene(t, "readers.example.com", 5)
	file := b.manifest(t, name, func(*apiextensionsv1.CustomResourceDefinition) {})
	for _, args := range [][]string{
		{"sort"},
		{"sort", "-o", "json"},
		{"status"},
		{"status", name},
		{"validate"},
		{"validate", "-f", file},
		{"preflight", "-f", file},
		{"usage", "v1beta1", name},
		{"can-remove", "v1beta1", name},
		{"roundtrip", name},
		{"explain", "served-version-removed"},
		{"version"},
		{"help"},
		{"promote", "--help"},
		{"promote", "v1", name, "--dry-run=client"},
		{"promote", "v1", name, "--dry-run=server", "-o", "json"},
		{"__complete", "promote", ""},
	} {
		command := exec.CommandContext(t.Context(), binary(t), append(args, "--kubeconfig", b.kubeconfig)...)
		if args[0] == "__complete" {
			command.Args = append(command.Args[:1], args...)
		}
		var errOut bytes.Buffer
		command.Stdout, command.Stderr = closedPipe(t), &errOut
		endsWithReader(t, command)
		if text := errOut.String(); strings.Contains(text, "error:") || strings.Contains(text, "pipe") {
			t.Errorf("%s complains: %s", strings.Join(args, " "), text)
		}
	}
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// stopTimeout is how long a server may take to stop before it is killed.
const stopTimeout = 15 * time.Second

// bed is a server in processes of its own, so that the CPU time that it takes is
// not that of the clients.
type bed struct {
	testbed.Bed
	// name says what it is.
	name string
	// ids are the processes that serve.
	ids []int
	// full is nil where there is no control plane.
	full *testbed.Full
}

// startBed starts the full control plane where its binaries are, and otherwise
// the API server of this module.
func startBed(ctx context.Context, o options, dir string) (*bed, error) {
	if o.bed == bedInProcess || o.bed == bedAuto && os.Getenv(testbed.AssetsVariable) == "" {
		return startServe(ctx, o, dir)
	}
	full, err := testbed.StartFull(ctx, testbed.FullOptions{})
	if err != nil {
		return nil, err
	}
	return &bed{Bed: full, full: full, ids: full.ServerIDs(), name: "kube-apiserver and etcd"}, nil
}

// startServe starts this program again as a server.
func startServe(ctx context.Context, o options, dir string) (*bed, error) {
	command := exec.CommandContext(ctx, o.self[0], append(o.self[1:], "serve", dir)...)
	command.Stderr = o.stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	// Killed, it would leave its files behind.
	command.Cancel, command.WaitDelay = stdin.Close, stopTimeout
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	r := &remote{command: command, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the server: %w", err), command.Wait())
	}
	if err := r.connect(filepath.Join(dir, "kubeconfig"), strings.TrimSpace(line)); err != nil {
		r.Stop()
		return nil, err
	}
	return &bed{Bed: r, ids: []int{command.Process.Pid}, name: "apiextensions-apiserver and etcd in one process"}, nil
}

// remote is a bed that another process runs.
type remote struct {
	command *exec.Cmd
	stdin   io.Closer
	config  *rest.Config
	etcd    *clientv3.Client
}

var _ testbed.Bed = &remote{}

func (r *remote) connect(kubeconfig, etcd string) (err error) {
	if r.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return fmt.Errorf("connecting to the server: %w", err)
	}
	r.config.QPS = -1
	r.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{etcd}, Logger: zap.NewNop(), MaxCallRecvMsgSize: 1 << 30})
	if err != nil {
		return fmt.Errorf("connecting to etcd: %w", err)
	}
	return nil
}

// Config implements testbed.Bed.
func (r *remote) Config() *rest.Config { return rest.CopyConfig(r.config) }

// WriteKubeconfig implements testbed.Bed.
func (r *remote) WriteKubeconfig(path string) error { return testbed.WriteKubeconfig(path, r.config) }

// Etcd implements testbed.Bed.
func (r *remote) Etcd() *clientv3.Client { return r.etcd }

// Stop implements testbed.Bed.
func (r *remote) Stop() {
	if r.etcd != nil {
		_ = r.etcd.Close() // The server goes away with it; there is nobody to tell.
	}
	_ = r.stdin.Close()  // It asks the server to end.
	_ = r.command.Wait() // What it did until then counts, not how it ended.
}

// serve is the server: it runs until its standard input ends, which happens also
// when its parent dies.
func serve(ctx context.Context, dir string, stdin io.Reader, stdout io.Writer) error {
	server, err := testbed.StartInProcess(ctx, testbed.InProcessOptions{})
	if err != nil {
		return err
	}
	defer server.Stop()
	if err := server.WriteKubeconfig(filepath.Join(dir, "kubeconfig")); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(stdout, server.EmbeddedEtcd().Endpoint()); err != nil {
		return fmt.Errorf("saying where etcd is: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, stdin) // However it ends.
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

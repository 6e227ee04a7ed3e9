package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// portAttempts is how often another port is tried: between choosing a free one
// and the server's listening on it, another process may take it.
const portAttempts = 3

// APIServer is a kube-apiserver that runs as a child process.
type APIServer struct {
	path    string
	args    []string
	port    int
	log     io.Writer
	ca      *authority
	config  *rest.Config
	process *process
}

// start starts the server on a free port and waits until it is ready.
func (s *APIServer) start(ctx context.Context) error {
	var err error
	for range portAttempts {
		if s.port, err = freePort(); err != nil {
			return err
		}
		s.config, err = s.ca.config("https://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), "testbed-admin", "system:masters")
		if err != nil {
			return err
		}
		err = s.Start(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		s.Kill()
	}
	return err
}

// Start starts the server again after Stop or Kill, at the same address, and
// waits until it is ready.
func (s *APIServer) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	process, err := startProcess(s.log, s.path, append([]string{"--secure-port=" + strconv.Itoa(s.port)}, s.args...)...)
	if err != nil {
		return err
	}
	s.process = process
	stopped := make(chan error, 1)
	go func() {
		<-process.done
		stopped <- process.failed()
	}()
	if err := waitReady(ctx, s.config, stopped); err != nil {
		return err
	}
	return waitDefaultNamespace(ctx, s.config)
}

// waitDefaultNamespace waits for the namespace that the server creates shortly
// after it is ready.
func waitDefaultNamespace(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		if err == nil {
			return nil
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("waiting for the namespace default: %w", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the namespace default: %w", context.Cause(ctx))
		}
	}
}

// Config returns a client configuration of a user of the group system:masters,
// with no client-side rate limit. The caller may change it.
func (s *APIServer) Config() *rest.Config { return rest.CopyConfig(s.config) }

// WriteKubeconfig writes a kubeconfig of the user of Config.
func (s *APIServer) WriteKubeconfig(path string) error { return WriteKubeconfig(path, s.config) }

// Shutdown stops the server as a cluster's operator would: requests in flight are
// answered. The etcd and the other servers go on.
func (s *APIServer) Shutdown(ctx context.Context) {
	if s.process != nil {
		s.process.stop(ctx)
	}
}

// Kill kills the server as a power failure would.
func (s *APIServer) Kill() {
	if s.process != nil {
		s.process.kill()
	}
}

// freePort returns a port of the loopback device that nobody listens on.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if err := listener.Close(); err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	if !ok {
		return 0, errors.New("looking for a free port: not a TCP address")
	}
	return address.Port, nil
}

// apiServerArgs returns the flags that all servers of a bed have in common.
func apiServerArgs(dir, etcdEndpoint string) []string {
	file := func(name string) string { return filepath.Join(dir, name) }
	return []string{
		"--etcd-servers=" + etcdEndpoint,
		"--etcd-prefix=" + etcdPrefix,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--cert-dir=" + dir,
		"--tls-cert-file=" + file(servingCertFile),
		"--tls-private-key-file=" + file(servingKeyFile),
		"--client-ca-file=" + file(caFile),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://testbed",
		"--service-account-key-file=" + file(serviceAccountKeyFile),
		"--service-account-signing-key-file=" + file(serviceAccountKeyFile),
		"--service-cluster-ip-range=10.0.0.0/24",
		// Pods can be created without a controller that makes service accounts.
		"--disable-admission-plugins=ServiceAccount",
		"--shutdown-delay-duration=0",
	}
}

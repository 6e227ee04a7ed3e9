package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// AssetsVariable is the environment variable that names the directory with
// kube-apiserver, kube-controller-manager, kubectl and etcd.
const AssetsVariable = "KUBEBUILDER_ASSETS"

// FullOptions configures the full bed. The zero value is etcd and one
// kube-apiserver with RBAC.
type FullOptions struct {
	// Assets is the directory with the binaries. Empty means the one that the
	// environment variable KUBEBUILDER_ASSETS names.
	Assets string
	// ControllerManager also starts kube-controller-manager, with the controllers
	// of namespaces, service accounts, garbage collection and storage version
	// migration.
	ControllerManager bool
	// Controllers are more controllers that kube-controller-manager runs.
	Controllers []string
	// APIServerArgs are more flags of kube-apiserver. Given twice, the last one
	// counts.
	APIServerArgs []string
	// AuditPolicy, an audit.k8s.io/v1 Policy in YAML, turns on the audit log at
	// AuditLog. See [AuditMetadata].
	AuditPolicy string
	// Log receives the output of all child processes. Nil discards it.
	Log io.Writer
}

// AuditMetadata is an audit policy that logs one line of metadata per request.
const AuditMetadata = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// Full is a running full bed. The embedded server is the first one.
type Full struct {
	*APIServer

	assets     string
	dir        string
	log        io.Writer
	ca         *authority
	serverArgs []string
	etcd       *process
	etcdClient *clientv3.Client
	manager    *process

	mu      sync.Mutex
	others  []*APIServer
	stopped bool
}

var _ Bed = &Full{}

// StartFull starts etcd, kube-apiserver and, on request, kube-controller-manager
// as child processes, and returns when they are ready. ctx bounds the start only;
// the bed runs until Stop, or until this process ends.
func StartFull(ctx context.Context, opts FullOptions) (*Full, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	assets := opts.Assets
	if assets == "" {
		assets = os.Getenv(AssetsVariable)
	}
	if assets == "" {
		return nil, fmt.Errorf("starting the control plane: %s is not set; `make test` sets it, and `make controlplane-dir` prints its value", AssetsVariable)
	}
	bed := &Full{assets: assets, log: opts.Log}
	if err := bed.start(ctx, opts); err != nil {
		bed.Stop()
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	return bed, nil
}

func (f *Full) start(ctx context.Context, opts FullOptions) error {
	var err error
	if f.dir, err = os.MkdirTemp("", "crdver-bed-"); err != nil {
		return fmt.Errorf("creating a directory: %w", err)
	}
	if f.ca, err = newAuthority(); err != nil {
		return err
	}
	if err := f.ca.writeFiles(f.dir); err != nil {
		return err
	}
	endpoint, err := f.startEtcd(ctx)
	if err != nil {
		return err
	}
	f.serverArgs = apiServerArgs(f.dir, endpoint)
	args := opts.APIServerArgs
	if opts.AuditPolicy != "" {
		policy := filepath.Join(f.dir, "audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(opts.AuditPolicy), 0o600); err != nil {
			return fmt.Errorf("writing the audit policy: %w", err)
		}
		args = append([]string{"--audit-policy-file=" + policy, "--audit-log-path=" + f.AuditLog()}, args...)
	}
	f.serverArgs = append(f.serverArgs, args...)
	if f.APIServer, err = f.newAPIServer(ctx); err != nil {
		return err
	}
	if opts.ControllerManager {
		return f.StartControllerManager(ctx, opts.Controllers...)
	}
	return nil
}

func (f *Full) startEtcd(ctx context.Context) (endpoint string, err error) {
	path, err := executable(f.assets, "etcd")
	if err != nil {
		return "", err
	}
	client, peer := "unix://"+filepath.Join(f.dir, "etcd"), "unix://"+filepath.Join(f.dir, "peer")
	f.etcd, err = startProcess(f.log, path,
		"--name=testbed",
		"--data-dir="+filepath.Join(f.dir, "etcd-data"),
		"--listen-client-urls="+client,
		"--advertise-client-urls="+client,
		"--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer,
		"--initial-cluster=testbed="+peer,
		"--unsafe-no-fsync=true",
		"--heartbeat-interval=10",
		"--election-timeout=50",
		"--quota-backend-bytes=8589934592",
		"--log-level=warn",
	)
	if err != nil {
		return "", err
	}
	if err := f.waitEtcd(ctx, filepath.Join(f.dir, "etcd")); err != nil {
		return "", fmt.Errorf("waiting for etcd: %w", err)
	}
	if f.etcdClient, err = newEtcdClient(client); err != nil {
		return "", err
	}
	return client, nil
}

// waitEtcd waits until etcd listens. Until it also has a leader, it lets requests
// wait.
func (f *Full) waitEtcd(ctx context.Context, socket string) error {
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) { //nolint:wrapcheck // The caller wraps it.
		if err := f.etcd.failed(); err != nil {
			return false, err
		}
		_, err := os.Stat(socket)
		return err == nil, nil
	})
}

func (f *Full) newAPIServer(ctx context.Context, args ...string) (*APIServer, error) {
	path, err := executable(f.assets, "kube-apiserver")
	if err != nil {
		return nil, err
	}
	server := &APIServer{path: path, log: f.log, ca: f.ca, args: append(append([]string(nil), f.serverArgs...), args...)}
	if err := server.start(ctx); err != nil {
		server.Kill()
		return nil, fmt.Errorf("starting kube-apiserver: %w", err)
	}
	return server, nil
}

// StartAnotherAPIServer starts one more kube-apiserver on the same etcd, with the
// same flags and those given. Stop stops it, too.
func (f *Full) StartAnotherAPIServer(ctx context.Context, args ...string) (*APIServer, error) {
	server, err := f.newAPIServer(ctx, args...)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		server.Kill()
		return nil, errors.New("starting kube-apiserver: the bed was stopped")
	}
	f.others = append(f.others, server)
	return server, nil
}

// RestartAPIServer stops the first kube-apiserver and starts it again at the same
// address.
func (f *Full) RestartAPIServer(ctx context.Context) error {
	f.Shutdown(ctx)
	if err := f.Start(ctx); err != nil {
		return fmt.Errorf("starting kube-apiserver again: %w", err)
	}
	return nil
}

// StartControllerManager starts kube-controller-manager with the controllers that
// FullOptions names, and more. Its garbage collector, and with it the migrator,
// looks for new resources every 30 seconds: a test whose CRD exists before the
// controller manager does not wait for that.
func (f *Full) StartControllerManager(ctx context.Context, more ...string) error {
	return f.StartControllerManagerAt(ctx, f.config.Host, more...)
}

// StartControllerManagerAt does the same with a kube-controller-manager that
// reaches the server at another address: that of a proxy.
func (f *Full) StartControllerManagerAt(ctx context.Context, host string, more ...string) error {
	if f.manager != nil && f.manager.failed() == nil {
		return errors.New("starting kube-controller-manager: it runs already")
	}
	path, err := executable(f.assets, "kube-controller-manager")
	if err != nil {
		return err
	}
	config, err := f.ca.config(host, "system:kube-controller-manager", "system:masters")
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(f.dir, "controller-manager.kubeconfig")
	if err := WriteKubeconfig(kubeconfig, config); err != nil {
		return err
	}
	controllers := append([]string{
		"garbage-collector-controller",
		"namespace-controller",
		"serviceaccount-controller",
		"serviceaccount-token-controller",
		"storage-version-migrator-controller",
	}, more...)
	f.manager, err = startProcess(f.log, path,
		"--kubeconfig="+kubeconfig,
		"--authentication-skip-lookup=true",
		"--secure-port=0",
		"--leader-elect=false",
		"--controllers="+strings.Join(controllers, ","),
		"--use-service-account-credentials=false",
		"--service-account-private-key-file="+filepath.Join(f.dir, serviceAccountKeyFile),
		"--root-ca-file="+filepath.Join(f.dir, caFile),
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	)
	if err != nil {
		return err
	}
	return f.waitManager(ctx)
}

// StopControllerManager kills kube-controller-manager.
func (f *Full) StopControllerManager() {
	if f.manager != nil {
		f.manager.kill()
	}
}

// AuditLog returns the path of the audit log, which exists when AuditPolicy was
// given: one JSON event a line, of all servers.
func (f *Full) AuditLog() string { return filepath.Join(f.dir, "audit.log") }

// Etcd returns a client of the etcd, valid until Stop.
func (f *Full) Etcd() *clientv3.Client { return f.etcdClient }

// Kubectl returns the path of the kubectl of the same version.
func (f *Full) Kubectl() (string, error) { return executable(f.assets, "kubectl") }

// User returns a client configuration of a user with a client certificate who may
// do what the rules allow in all namespaces, and nothing else beyond what RBAC
// grants to every authenticated user. For an existing user, the rules are
// replaced.
func (f *Full) User(ctx context.Context, name string, rules ...rbacv1.PolicyRule) (*rest.Config, error) {
	config, err := f.ca.config(f.config.Host, name)
	if err != nil {
		return nil, err
	}
	if err := grant(ctx, f.config, name, rules); err != nil {
		return nil, fmt.Errorf("granting rights to %s: %w", name, err)
	}
	return config, nil
}

// Stop kills all child processes, waits for their end and deletes what they have
// stored. Further calls do nothing.
func (f *Full) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return
	}
	f.stopped = true
	f.StopControllerManager()
	servers := f.others
	if f.APIServer != nil {
		servers = append(servers, f.APIServer)
	}
	for _, server := range servers {
		server.Kill()
	}
	if f.etcdClient != nil {
		_ = f.etcdClient.Close() // The server goes away with it; there is nobody to tell.
	}
	if f.etcd != nil {
		f.etcd.kill()
	}
	if f.dir != "" {
		_ = os.RemoveAll(f.dir) // A leftover in the temporary directory is harmless.
	}
}

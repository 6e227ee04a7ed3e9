package testbed

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// EtcdOptions configures an embedded etcd.
type EtcdOptions struct {
	// Log receives the log of etcd. Nil discards it.
	Log io.Writer
}

// EmbeddedEtcd is an etcd that runs in this process, listens on a unix socket
// and keeps its data in a temporary directory. It never syncs to disk.
type EmbeddedEtcd struct {
	dir      string
	endpoint string
	server   *embed.Etcd
	client   *clientv3.Client
	stop     sync.Once
}

// StartEtcd starts an embedded etcd. ctx bounds the start only; the etcd runs
// until Stop.
func StartEtcd(ctx context.Context, opts EtcdOptions) (*EmbeddedEtcd, error) {
	dir, err := os.MkdirTemp("", "crdver-etcd-")
	if err != nil {
		return nil, fmt.Errorf("creating the directory of etcd: %w", err)
	}
	e := &EmbeddedEtcd{dir: dir}
	if err := e.start(ctx, opts); err != nil {
		e.Stop()
		return nil, fmt.Errorf("starting etcd: %w", err)
	}
	return e, nil
}

func (e *EmbeddedEtcd) start(ctx context.Context, opts EtcdOptions) error {
	logger := zap.NewNop()
	if opts.Log != nil {
		encoder := zapcore.NewConsoleEncoder(zap.NewProductionEncoderConfig())
		logger = zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(opts.Log)), zap.InfoLevel))
	}
	client := url.URL{Scheme: "unix", Path: filepath.Join(e.dir, "client")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(e.dir, "peer")}

	cfg := embed.NewConfig()
	cfg.Name = "testbed"
	cfg.Dir = filepath.Join(e.dir, "data")
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.UnsafeNoFsync = true
	cfg.EnableGRPCGateway = false
	// A single member elects itself; there is nothing to wait for.
	cfg.TickMs, cfg.ElectionMs = 10, 50
	cfg.QuotaBackendBytes = 8 << 30
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)

	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	e.server = server
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		return fmt.Errorf("the server stopped: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("waiting for the server: %w", context.Cause(ctx))
	}
	e.endpoint = client.String()
	e.client, err = newEtcdClient(e.endpoint)
	return err
}

// newEtcdClient connects to an etcd without TLS.
func newEtcdClient(endpoint string) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:          []string{endpoint},
		Logger:             zap.NewNop(),
		MaxCallRecvMsgSize: 1 << 30,
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	return client, nil
}

// Endpoint returns the address of the etcd, as kube-apiserver's --etcd-servers
// takes it.
func (e *EmbeddedEtcd) Endpoint() string { return e.endpoint }

// Client returns a client that is valid until Stop.
func (e *EmbeddedEtcd) Client() *clientv3.Client { return e.client }

// Stop stops the etcd and deletes its data. Further calls do nothing.
func (e *EmbeddedEtcd) Stop() {
	e.stop.Do(func() {
		if e.client != nil {
			_ = e.client.Close() // The server goes away with it; there is nobody to tell.
		}
		if e.server != nil {
			e.server.Close()
		}
		_ = os.RemoveAll(e.dir) // A leftover in the temporary directory is harmless.
	})
}

package cmd

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// product is the name of the plugin in the User-Agent header.
const product = "kubectl-crdver"

// fallbackServer is where client-go connects to without any configuration.
const fallbackServer = "http://localhost:8080"

// Factory gives the commands what they share: streams, connection flags and
// the client configuration made from them. Making one reads no file and
// contacts no server.
type Factory struct {
	genericiooptions.IOStreams

	// ConfigFlags are the connection flags of the root command.
	ConfigFlags *genericclioptions.ConfigFlags

	version  string
	warnings *warningHandler
	// status brings a signal whenever somebody wants to know where a run is; nil
	// for never.
	status <-chan os.Signal
	// clock replaces that of the API server; nil for that one.
	clock func() time.Time
	// keepGoing is called before something is changed; see [WithKeepGoing].
	keepGoing func() (end func())
}

// NewFactory returns a Factory for a plugin of the given version, empty when
// the build did not set one.
func NewFactory(streams genericiooptions.IOStreams, version string) *Factory {
	f := &Factory{IOStreams: streams, version: version, warnings: newWarningHandler(streams.ErrOut), keepGoing: func() func() { return func() {} }}
	// Discovery takes a request per group; the defaults of client-go make
	// that slow on clusters with many CRDs.
	f.ConfigFlags = genericclioptions.NewConfigFlags(true).
		WithDiscoveryBurst(300).
		WithDiscoveryQPS(50).
		WithWarningPrinter(streams).
		WithWrapConfigFn(f.wrapConfig)
	return f
}

// RESTConfig returns the client configuration that the flags and the
// kubeconfig describe. The caller may change it.
func (f *Factory) RESTConfig() (*rest.Config, error) {
	config, err := f.ConfigFlags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if f.unconfigured(config) {
		return nil, errNoCluster
	}
	return config, nil
}

// Cluster returns the cluster that the flags and the kubeconfig lead to. No
// request is sent yet.
func (f *Factory) Cluster() (cluster.Interface, error) {
	config, err := f.RESTConfig()
	if err != nil {
		return nil, err
	}
	name, err := f.Context()
	if err != nil {
		return nil, err
	}
	client, err := cluster.New(config, name)
	if err != nil {
		return nil, fmt.Errorf("connection: %w", err)
	}
	return client, nil
}

// Namespace returns the namespace of the flags or the kubeconfig's context,
// and whether --namespace was given.
func (f *Factory) Namespace() (namespace string, explicit bool, err error) {
	namespace, explicit, err = f.ConfigFlags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", false, fmt.Errorf("kubeconfig: %w", err)
	}
	return namespace, explicit, nil
}

// Context returns the name of the kubeconfig's context in use, empty when
// the configuration comes from elsewhere (flags alone, or from inside a pod).
func (f *Factory) Context() (string, error) {
	if name := *f.ConfigFlags.Context; name != "" {
		return name, nil
	}
	raw, err := f.ConfigFlags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	return raw.CurrentContext, nil
}

// tell writes to standard error what is not the answer. That it cannot be
// written, because nobody reads it, ends nothing.
func (f *Factory) tell(format string, args ...any) {
	_, _ = fmt.Fprintf(f.ErrOut, format, args...)
}

// Warn prints a warning of our own the way those of the server are printed.
func (f *Factory) Warn(text string) { f.warnings.print(text) }

// wrapConfig sets what every client of the plugin has in common.
func (f *Factory) wrapConfig(config *rest.Config) *rest.Config {
	config.UserAgent = fmt.Sprintf("%s/%s (%s/%s)", product, clientVersion(f.version), runtime.GOOS, runtime.GOARCH)
	config.WarningHandler = f.warnings
	return config
}

// errNoCluster says that nobody named a cluster.
var errNoCluster = errors.New("no cluster is configured: set KUBECONFIG, --kubeconfig or --server")

// unconfigured reports whether config is only client-go's fallback address,
// which nobody asked for.
func (f *Factory) unconfigured(config *rest.Config) bool {
	if *f.ConfigFlags.APIServer != "" || config.Host != fallbackServer {
		return false
	}
	raw, err := f.ConfigFlags.ToRawKubeConfigLoader().RawConfig()
	return err == nil && len(raw.Clusters) == 0
}

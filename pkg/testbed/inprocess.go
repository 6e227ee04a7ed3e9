package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	noopoteltrace "go.opentelemetry.io/otel/trace/noop"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	serveroptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	generatedopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	discoveryendpoint "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// etcdPrefix is where both beds keep their objects in etcd, as kube-apiserver
// does by default.
const etcdPrefix = "/registry"

// startTimeout bounds the start of a server whose context has no deadline.
const startTimeout = 2 * time.Minute

// InProcessOptions configures the in-process bed. The zero value is a server
// that allows everything and logs nothing.
type InProcessOptions struct {
	// Log receives the logs of etcd and of the API server. Nil discards them.
	// The API server logs through klog, which one process has only one of: the
	// bed started last decides for all.
	Log io.Writer
	// Etcd is the etcd to use, which the caller stops after the bed. Nil starts
	// one. Servers that share an etcd behave as the servers of one cluster do.
	Etcd *EmbeddedEtcd
	// Admission is asked about every write, as an admission plugin of a real
	// server is. Nil admits everything.
	Admission admission.Interface
	// Authorizer is asked about requests that the bed's own user makes while it
	// impersonates another one. Nil refuses them.
	Authorizer authorizer.Authorizer
	// Middleware wraps the whole HTTP handler: the place to add latency, to
	// count requests and bytes, and to answer 429, 503 or 410. The server's own
	// controllers talk through it, too. Nil changes nothing.
	Middleware func(http.Handler) http.Handler
}

// InProcess is a running in-process bed.
type InProcess struct {
	etcd     *EmbeddedEtcd
	ownEtcd  bool
	listener *trackedListener
	config   *rest.Config
	cancel   context.CancelFunc
	done     chan struct{}
	stop     sync.Once
}

// StartInProcess starts the apiextensions API server in this process and
// returns when it is ready. ctx bounds the start only; the bed runs until Stop.
func StartInProcess(ctx context.Context, opts InProcessOptions) (*InProcess, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	setKlogOutput(opts.Log)

	bed := &InProcess{etcd: opts.Etcd}
	if bed.etcd == nil {
		etcd, err := StartEtcd(ctx, EtcdOptions{Log: opts.Log})
		if err != nil {
			return nil, err
		}
		bed.etcd, bed.ownEtcd = etcd, true
	}
	if err := bed.start(ctx, opts); err != nil {
		bed.Stop()
		return nil, fmt.Errorf("starting the API server: %w", err)
	}
	return bed, nil
}

func (b *InProcess) start(ctx context.Context, opts InProcessOptions) error {
	listener, err := listenLoopback()
	if err != nil {
		return err
	}
	config, err := serverConfig(listener, b.etcd.Endpoint(), opts)
	if err != nil {
		_ = listener.Close() // Nothing serves it; the error is what matters.
		return err
	}
	server, err := config.Complete().New(genericapiserver.NewEmptyDelegate())
	if err != nil {
		_ = listener.Close() // Nothing serves it; the error is what matters.
		return fmt.Errorf("building the server: %w", err)
	}
	b.listener = listener
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.cancel, b.done = cancel, make(chan struct{})
	stopped := make(chan error, 1)
	go func() {
		defer close(b.done)
		stopped <- server.GenericAPIServer.PrepareRun().RunWithContext(runCtx)
	}()

	b.config = rest.CopyConfig(server.GenericAPIServer.LoopbackClientConfig)
	b.config.UserAgent = ""
	if err := waitReady(ctx, b.config, stopped); err != nil {
		return err
	}
	return nil
}

// serverConfig does what the options of the apiextensions server do, without
// flags, without files and without a kube-apiserver to delegate to.
func serverConfig(listener net.Listener, etcdEndpoint string, opts InProcessOptions) (*apiserver.Config, error) {
	generic := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	generic.EffectiveVersion = newServerVersion()
	generic.MergedResourceConfig = apiserver.DefaultAPIResourceConfigSource()
	generic.AdmissionControl = opts.Admission

	if err := serveLoopback(generic, listener); err != nil {
		return nil, err
	}
	// The only user is the one of the loopback token, which the server adds.
	generic.Authentication.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return nil, false, nil
	})
	authorizers := []union.NamedAuthorizer{{
		AuthorizerName: "privileged",
		Authorizer:     authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup),
	}}
	if opts.Authorizer != nil {
		authorizers = append(authorizers, union.NamedAuthorizer{AuthorizerName: "testbed", Authorizer: opts.Authorizer})
	}
	var err error
	if generic.Authorization.Authorizer, err = union.New(authorizers...); err != nil {
		return nil, fmt.Errorf("configuring authorization: %w", err)
	}
	generic.AggregatedDiscoveryGroupManager = discoveryendpoint.NewResourceManager("apis")
	generic.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		handler = genericapiserver.DefaultBuildHandlerChain(withRootDiscovery(handler, c.AggregatedDiscoveryGroupManager), c)
		if opts.Middleware != nil {
			handler = opts.Middleware(handler)
		}
		return handler
	}

	codec := apiserver.Codecs.LegacyCodec(apiextensionsv1beta1.SchemeGroupVersion, apiextensionsv1.SchemeGroupVersion)
	etcd := genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig(etcdPrefix, codec))
	etcd.StorageConfig.Transport.ServerList = []string{etcdEndpoint}
	if err := etcd.ApplyTo(&generic.Config); err != nil {
		return nil, fmt.Errorf("configuring storage: %w", err)
	}

	definitions := openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(generatedopenapi.GetOpenAPIDefinitions)
	namer := openapinamer.NewDefinitionNamer(apiserver.Scheme, scheme.Scheme)
	generic.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)

	return &apiserver.Config{
		GenericConfig: generic,
		ExtraConfig: apiserver.ExtraConfig{
			CRDRESTOptionsGetter: serveroptions.NewCRDRESTOptionsGetter(*etcd, generic.ResourceTransformers, generic.StorageObjectCountTracker),
			ServiceResolver:      webhook.NewDefaultServiceResolver(),
			AuthResolverWrapper:  webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, nil, generic.LoopbackClientConfig, noopoteltrace.NewTracerProvider()),
		},
	}, nil
}

// serveLoopback makes the server listen on a free port of the loopback device,
// with a certificate of its own.
func serveLoopback(config *genericapiserver.RecommendedConfig, listener net.Listener) error {
	serving := genericoptions.NewSecureServingOptions()
	serving.Listener = listener
	serving.BindAddress = net.IPv4(127, 0, 0, 1)
	serving.ServerCert = genericoptions.GeneratableKeyCert{} // In memory.
	serving.HTTP2MaxStreamsPerConnection = 1000
	if err := serving.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{serving.BindAddress}); err != nil {
		return fmt.Errorf("generating a certificate: %w", err)
	}
	if err := serving.WithLoopback().ApplyToConfig(&config.Config); err != nil {
		return fmt.Errorf("configuring the listener: %w", err)
	}
	config.ExternalAddress = listener.Addr().String()
	return nil
}

// waitReady waits until the server answers /readyz with 200. A value on stopped
// says that it never will.
func waitReady(ctx context.Context, config *rest.Config, stopped <-chan error) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	defer client.CloseIdleConnections()
	last := errors.New("no answer yet")
	err = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-stopped:
			return false, fmt.Errorf("the server stopped: %w", err)
		default:
		}
		last = getReady(ctx, client, config.Host)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until the server is ready: %w (%w)", err, last)
	}
	return nil
}

func getReady(ctx context.Context, client *http.Client, host string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, host+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("building the request: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking /readyz: %w", err)
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, 4096)) // The body only explains the status.
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s: %s", response.Status, body)
	}
	return nil
}

// Config returns a client configuration of a user who may do everything, with
// no client-side rate limit. The caller may change it.
func (b *InProcess) Config() *rest.Config { return rest.CopyConfig(b.config) }

// WriteKubeconfig writes a kubeconfig of the user of Config.
func (b *InProcess) WriteKubeconfig(path string) error { return WriteKubeconfig(path, b.config) }

// Etcd returns a client of the etcd, valid until Stop.
func (b *InProcess) Etcd() *clientv3.Client { return b.etcd.Client() }

// EmbeddedEtcd returns the etcd, to start another server on it.
func (b *InProcess) EmbeddedEtcd() *EmbeddedEtcd { return b.etcd }

// Stop stops the server and, when the bed started it, the etcd. Further calls do
// nothing.
func (b *InProcess) Stop() {
	b.stop.Do(func() {
		if b.cancel != nil {
			b.cancel()
			b.waitStopped()
		}
		if b.ownEtcd {
			b.etcd.Stop()
		}
	})
}

// waitStopped waits for the server's end and cuts off the clients that hold it
// up.
func (b *InProcess) waitStopped() {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-b.done:
			return
		case <-ticker.C:
			b.listener.closeConnections()
		}
	}
}

package cluster

import (
	"context"
	"fmt"
	"net/http"

	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// Cluster implements [Interface] on client-go.
type Cluster struct {
	config  *rest.Config
	context string
	// raw sends requests by path: objects, discovery documents, APIServices.
	raw           rest.Interface
	crds          apiextensionsclient.CustomResourceDefinitionsGetter
	discovery     *discovery.DiscoveryClient
	authorization authorizationv1.SelfSubjectAccessReviewsGetter
}

var _ Interface = &Cluster{}

// New returns the cluster that config leads to. context is the name of the
// kubeconfig context, which is only reported. The config is not changed.
//
// No client limits its own rate: the server has API priority and fairness, and
// the engine that rewrites objects takes a rate from its user.
func New(config *rest.Config, context string) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("building the client: %w", err)
	}
	c := &Cluster{config: config, context: context}
	if c.raw, err = rawClient(config, client); err != nil {
		return nil, err
	}
	// Protobuf for CRDs: a tenth of the work of JSON, for the server, too.
	protobuf := rest.CopyConfig(config)
	protobuf.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	protobuf.ContentType = runtime.ContentTypeProtobuf
	if c.crds, err = apiextensionsclient.NewForConfigAndClient(protobuf, client); err != nil {
		return nil, fmt.Errorf("building the client of CRDs: %w", err)
	}
	if c.authorization, err = authorizationv1.NewForConfigAndClient(protobuf, client); err != nil {
		return nil, fmt.Errorf("building the client of access reviews: %w", err)
	}
	if c.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("building the client of discovery: %w", err)
	}
	return c, nil
}

// rawClient builds the client that client-go's metadata client is made of: it
// can decode metadata and errors, in protobuf and JSON, of any resource.
func rawClient(config *rest.Config, client *http.Client) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.ContentType = runtime.ContentTypeProtobuf
	config.NegotiatedSerializer = metainternalversionscheme.Codecs.WithoutConversion()
	config.GroupVersion = &schema.GroupVersion{}
	config.APIPath = "/unused" // Each request has an absolute path.
	raw, err := rest.RESTClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("building the client of objects: %w", err)
	}
	return raw, nil
}

// fresh returns a client whose first request opens a new connection, and a
// function that closes it. Client-go caches transports by their TLS settings and
// would hand out the connection that is already there, which leads to one and
// the same server; it does not cache those of a configuration with a Proxy
// function, because it cannot compare functions.
func (c *Cluster) fresh() (rest.Interface, func(), error) {
	return freshOf(rest.CopyConfig(c.config))
}

// freshOf is fresh for a configuration, which it changes.
func freshOf(config *rest.Config) (rest.Interface, func(), error) {
	if config.Proxy == nil {
		config.Proxy = http.ProxyFromEnvironment // What client-go does without one.
	}
	// Certificates that are loaded here are not watched for changes in the
	// background, which would go on after the connection is closed.
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, nil, fmt.Errorf("loading certificates: %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("building a client for a new connection: %w", err)
	}
	raw, err := rawClient(config, client)
	if err != nil {
		return nil, nil, err
	}
	return raw, func() { utilnet.CloseIdleConnectionsFor(client.Transport) }, nil
}

// getJSON reads a path as JSON. It is sent once.
func getJSON(ctx context.Context, client rest.Interface, accept string, params map[string]string, path ...string) (body []byte, contentType string, err error) {
	request := client.Get().AbsPath(path...).SetHeader("Accept", accept).MaxRetries(0)
	for name, value := range params {
		request = request.Param(name, value)
	}
	result := request.Do(ctx).ContentType(&contentType)
	// Error decodes the Status in the answer; Raw would only say "unknown".
	if err := result.Error(); err != nil {
		return nil, "", err //nolint:wrapcheck // The caller says what was read.
	}
	body, err = result.Raw()
	return body, contentType, err //nolint:wrapcheck // As above.
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// apiServerLeases selects the Leases by which API servers know of each other.
const apiServerLeases = "apiserver.kubernetes.io/identity=kube-apiserver"

// directTimeout bounds connecting to an API server by its own address, which from
// outside the cluster's network commonly leads nowhere.
const directTimeout = 3 * time.Second

// APIServers is how many API servers there are.
type APIServers struct {
	// Addresses are where the endpoints of the Service "kubernetes" say they are,
	// as host:port. They may be those of a load balancer.
	Addresses []string
	// Leases is the number of servers with a Lease that is not over. Servers on
	// one host share it.
	Leases int
}

// Count is how many there are at least; 0 if nothing says.
func (s APIServers) Count() int { return max(len(s.Addresses), s.Leases) }

// APIServers implements [Interface]. What may not be read is left out.
func (c *Cluster) APIServers(ctx context.Context) (APIServers, error) {
	var servers APIServers
	var endpoints discoveryv1.EndpointSliceList
	params := map[string]string{"labelSelector": discoveryv1.LabelServiceName + "=kubernetes"}
	err := c.getObject(ctx, &endpoints, params, "apis", "discovery.k8s.io", "v1", "namespaces", metav1.NamespaceDefault, "endpointslices")
	if err != nil && !unavailable(err) {
		return servers, fmt.Errorf("reading the endpoints of the API servers: %w", plain(err))
	}
	for _, slice := range endpoints.Items {
		servers.Addresses = append(servers.Addresses, addresses(slice)...)
	}
	slices.Sort(servers.Addresses)
	servers.Addresses = slices.Compact(servers.Addresses)
	var leases coordinationv1.LeaseList
	params = map[string]string{"labelSelector": apiServerLeases}
	err = c.getObject(ctx, &leases, params, "apis", "coordination.k8s.io", "v1", "namespaces", metav1.NamespaceSystem, "leases")
	if err != nil && !unavailable(err) {
		return servers, fmt.Errorf("reading the leases of the API servers: %w", plain(err))
	}
	for _, lease := range leases.Items {
		if current(lease, time.Now()) {
			servers.Leases++
		}
	}
	return servers, nil
}

// unavailable tells whether an error says that this caller, or this server, cannot
// say.
func unavailable(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}

func addresses(slice discoveryv1.EndpointSlice) []string {
	var list []string
	for _, port := range slice.Ports {
		if port.Port == nil || port.Name != nil && *port.Name != "https" {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			for _, address := range endpoint.Addresses {
				list = append(list, net.JoinHostPort(address, strconv.Itoa(int(*port.Port))))
			}
		}
	}
	return list
}

// current tells whether a Lease was renewed lately; a server that is gone leaves
// its own behind for a while.
func current(lease coordinationv1.Lease, now time.Time) bool {
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return false
	}
	return lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second).After(now)
}

// errNotDirect says that a server is not to be addressed by itself.
var errNotDirect = errors.New("without a CA of the cluster in the kubeconfig, credentials are only sent to the address that it gives")

// errBehindProxy says that there is more than a load balancer between.
var errBehindProxy = errors.New("the kubeconfig leads to a proxy, and not to API servers")

// metricsTimeout bounds the reading of the metrics of one server: tens of
// megabytes, but a server may also never come to the end of them.
const metricsTimeout = 30 * time.Second

// Metrics implements [Interface].
func (c *Cluster) Metrics(ctx context.Context, address string, read func(io.Reader) error) error {
	client, done, err := c.metricsClient(address)
	if err != nil {
		return fmt.Errorf("reading metrics: %w", err)
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	body, err := client.Get().AbsPath("metrics").SetHeader("Accept", "text/plain").MaxRetries(0).Stream(ctx)
	if err != nil {
		return fmt.Errorf("reading metrics: %w", plain(err))
	}
	defer func() { _ = body.Close() }() // It was only read.
	return read(body)
}

// metricsClient returns a client for one server. A server that is addressed by
// itself has to prove, by the cluster's own CA, that it is one of those which the
// kubeconfig leads to: the address comes from the cluster, and credentials go
// there.
func (c *Cluster) metricsClient(address string) (rest.Interface, func(), error) {
	if address == "" {
		return c.fresh()
	}
	if c.config.Insecure || len(c.config.CAData) == 0 && c.config.CAFile == "" {
		return nil, nil, errNotDirect
	}
	server, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the address of the server: %w", err)
	}
	if server.Scheme != "https" || strings.Trim(server.Path, "/") != "" {
		return nil, nil, errBehindProxy
	}
	config := rest.CopyConfig(c.config)
	config.Host, config.APIPath = "https://"+address, ""
	if config.ServerName == "" {
		config.ServerName = server.Hostname()
	}
	if config.Dial == nil {
		config.Dial = (&net.Dialer{Timeout: directTimeout}).DialContext
	}
	return freshOf(config)
}

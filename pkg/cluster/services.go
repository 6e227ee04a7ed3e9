package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// dialTimeout bounds a TLS handshake with a webhook.
const dialTimeout = 5 * time.Second

// Service is what matters of a Service that a webhook is reached through.
type Service struct {
	// NamespaceMissing, NamespaceTerminating and Missing say what is not there.
	NamespaceMissing     bool
	NamespaceTerminating bool
	Missing              bool
	// Elsewhere are the namespaces that have a Service of that name.
	Elsewhere []string
	// Ports are its ports.
	Ports []int32
	// Ready is the number of its ready endpoints; nil where it cannot be read.
	Ready *int
}

// Service implements [Interface].
func (c *Cluster) Service(ctx context.Context, namespace, name string) (Service, error) {
	var found Service
	var space corev1.Namespace
	switch err := c.getObject(ctx, &space, nil, "api", "v1", "namespaces", namespace); {
	case missing(err, "namespaces"):
		found.NamespaceMissing, found.Missing = true, true
		found.Elsewhere = c.elsewhere(ctx, name)
		return found, nil
	case apierrors.IsNotFound(err):
		return found, fmt.Errorf("reading namespace %s: %w", namespace, ErrNotSupported)
	case err != nil && !apierrors.IsForbidden(err):
		return found, fmt.Errorf("reading namespace %s: %w", namespace, plain(err))
	}
	found.NamespaceTerminating = space.DeletionTimestamp != nil
	var service corev1.Service
	switch err := c.getObject(ctx, &service, nil, "api", "v1", "namespaces", namespace, "services", name); {
	case missing(err, "services"):
		found.Missing = true
		found.Elsewhere = c.elsewhere(ctx, name)
		return found, nil
	case err != nil:
		return found, fmt.Errorf("reading service %s/%s: %w", namespace, name, plain(err))
	}
	for _, port := range service.Spec.Ports {
		found.Ports = append(found.Ports, port.Port)
	}
	if service.Spec.Type != corev1.ServiceTypeExternalName && len(service.Spec.Selector) > 0 {
		found.Ready = c.readyEndpoints(ctx, namespace, name)
	}
	return found, nil
}

// readyEndpoints counts the ready endpoints of a Service, or returns nil.
func (c *Cluster) readyEndpoints(ctx context.Context, namespace, name string) *int {
	var slices discoveryv1.EndpointSliceList
	params := map[string]string{"labelSelector": discoveryv1.LabelServiceName + "=" + name}
	if err := c.getObject(ctx, &slices, params, "apis", "discovery.k8s.io", "v1", "namespaces", namespace, "endpointslices"); err != nil {
		return nil
	}
	ready := 0
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			// Absent means ready (EndpointConditions.Ready).
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				ready += len(endpoint.Addresses)
			}
		}
	}
	return &ready
}

// elsewhere returns the namespaces that have a Service of a name, as far as
// they can be listed: it is only a hint.
func (c *Cluster) elsewhere(ctx context.Context, name string) []string {
	var list corev1.ServiceList
	params := map[string]string{"fieldSelector": "metadata.name=" + name, "limit": "50"}
	if err := c.getObject(ctx, &list, params, "api", "v1", "services"); err != nil {
		return nil
	}
	var namespaces []string
	for _, service := range list.Items {
		namespaces = append(namespaces, service.Namespace)
	}
	slices.Sort(namespaces)
	return namespaces
}

func (c *Cluster) getObject(ctx context.Context, into any, params map[string]string, path ...string) error {
	body, _, err := getJSON(ctx, c.raw, runtime.ContentTypeJSON, params, path...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("decoding the answer: %w", err)
	}
	return nil
}

// missing reports whether an object of a kind is not there, and not the whole
// API that it belongs to.
func missing(err error, resource string) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) &&
		status.Status().Details != nil && status.Status().Details.Kind == resource && status.Status().Details.Name != ""
}

// Certificates implements [Interface].
func (c *Cluster) Certificates(ctx context.Context, host string, port int) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	// What it presents is compared with the caBundle afterwards.
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: host}} //nolint:gosec // Nothing is sent or trusted.
	address := net.JoinHostPort(host, strconv.Itoa(port))
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", address, err)
	}
	defer func() { _ = connection.Close() }() // Nothing was sent.
	secure, ok := connection.(*tls.Conn)
	if !ok {
		return nil, fmt.Errorf("connecting to %s: not a TLS connection", address)
	}
	var presented [][]byte
	for _, certificate := range secure.ConnectionState().PeerCertificates {
		presented = append(presented, certificate.Raw)
	}
	return presented, nil
}

// Inside implements [Interface].
func (c *Cluster) Inside() bool {
	_, err := rest.InClusterConfig()
	return err == nil
}

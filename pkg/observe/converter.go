package observe

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// httpsPort is the port of a webhook that names none.
const httpsPort = 443

// converter looks at the conversion webhook of a CRD: whether what the CRD
// points to is there, what it presents, and whether the API server can convert
// through it. It returns nil where no webhook converts.
func (o *Observer) converter(ctx context.Context, c crd.CRD) *lifecycle.Converter {
	if c.ConversionStrategy() != apiextensionsv1.WebhookConverter {
		return nil
	}
	found := &lifecycle.Converter{Failures: o.conversionFailures(ctx, c)}
	webhook := c.Spec.Conversion.Webhook
	if webhook == nil || webhook.ClientConfig == nil {
		return found
	}
	host, port := "", httpsPort
	switch config := webhook.ClientConfig; {
	case config.Service != nil:
		if config.Service.Port != nil {
			port = int(*config.Service.Port)
		}
		o.service(ctx, config.Service, port, found)
		if o.cluster.Inside() && found.Error == "" && !found.ServiceMissing {
			host = config.Service.Name + "." + config.Service.Namespace + ".svc"
		}
	case config.URL != nil:
		host, port = hostAndPort(*config.URL)
	}
	if host != "" {
		// A webhook that cannot be reached from here may well be by the server.
		if presented, err := o.cluster.Certificates(ctx, host, port); err == nil {
			found.Certificates = presented
			found.TLSError = verify(presented, webhook.ClientConfig.CABundle, host)
		}
	}
	if found.TLSError == "" {
		found.TLSError = tlsFailure(found.Failures)
	}
	return found
}

func (o *Observer) service(ctx context.Context, reference *apiextensionsv1.ServiceReference, port int, found *lifecycle.Converter) {
	service, err := o.cluster.Service(ctx, reference.Namespace, reference.Name)
	if err != nil {
		found.Error = cluster.Explain(err).Message
		if errors.Is(err, cluster.ErrNotSupported) {
			found.Error = "the server has no services"
		}
		return
	}
	found.NamespaceMissing, found.NamespaceTerminating = service.NamespaceMissing, service.NamespaceTerminating
	found.ServiceMissing, found.ElsewhereIn = service.Missing, service.Elsewhere
	found.Ports, found.Endpoints = service.Ports, service.Ready
	found.PortMissing = !service.Missing && !slices.Contains(service.Ports, int32(port)) //nolint:gosec // The server took it: 1 to 65535.
}

// conversionFailures reads one object at each served version and returns the
// errors that come from converting it. A list alone would prove nothing: the
// server may answer it from its watch cache, with objects that were converted
// before. It reads a single object from etcd each time (Cacher.Get).
func (o *Observer) conversionFailures(ctx context.Context, c crd.CRD) map[string]string {
	failures := map[string]string{}
	note := func(version string, err error) {
		if err == nil || ctx.Err() != nil {
			return
		}
		if failure := cluster.Explain(err); failure.Reason == cluster.ReasonConversionFailed {
			failures[version] = failure.Message
		}
	}
	var example *types.NamespacedName
	for _, version := range c.Served() {
		page, err := o.objectsAt(c, version).ListMetadata(ctx, cluster.PageOptions{Limit: 1})
		note(version, err)
		if err == nil && len(page.Items) > 0 {
			example = &types.NamespacedName{Namespace: page.Items[0].Namespace, Name: page.Items[0].Name}
			break
		}
	}
	if example == nil {
		return failures
	}
	for _, version := range c.Served() {
		_, err := o.objectsAt(c, version).Get(ctx, *example)
		note(version, err)
	}
	return failures
}

func (o *Observer) objectsAt(c crd.CRD, version string) cluster.Objects {
	return o.cluster.Objects(schema.GroupVersionResource{Group: c.Spec.Group, Version: version, Resource: c.Spec.Names.Plural})
}

// tlsFailure returns the first failure that is about certificates.
func tlsFailure(failures map[string]string) string {
	for _, failure := range failures {
		if i := strings.Index(failure, "x509: "); i >= 0 {
			return "the API server says: " + failure[i:]
		}
	}
	return ""
}

// verify tells why a caBundle does not accept what a webhook presents, or "". An
// empty one stands for the roots of the API server's machine, which are not known
// here.
func verify(presented [][]byte, bundle []byte, host string) string {
	if len(strings.TrimSpace(string(bundle))) == 0 || len(presented) == 0 {
		return ""
	}
	roots, others := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return "" // Another rule says that it cannot be read.
	}
	leaf, err := x509.ParseCertificate(presented[0])
	if err != nil {
		return fmt.Sprintf("the certificate that the webhook presents cannot be read: %v", err)
	}
	for _, der := range presented[1:] {
		if certificate, err := x509.ParseCertificate(der); err == nil {
			others.AddCert(certificate)
		}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: others}); err != nil {
		return err.Error()
	}
	return ""
}

func hostAndPort(address string) (host string, port int) {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Scheme != "https" {
		return "", 0
	}
	port = httpsPort
	if text := parsed.Port(); text != "" {
		if port, err = strconv.Atoi(text); err != nil {
			return "", 0
		}
	}
	return parsed.Hostname(), port
}

// clients asks for each deprecated version that is served what clients are told.
func (o *Observer) clients(ctx context.Context, c crd.CRD) (warnings map[string][]string, failures map[string]string) {
	warnings, failures = map[string][]string{}, map[string]string{}
	for _, version := range c.Deprecated() {
		if !c.Version(version).Served {
			continue
		}
		resource := schema.GroupVersionResource{Group: c.Spec.Group, Version: version, Resource: c.Spec.Names.Plural}
		texts, err := o.cluster.Warnings(ctx, resource)
		if err != nil {
			failures[version] = cluster.Explain(err).Message
			continue
		}
		warnings[version] = texts
	}
	return warnings, failures
}

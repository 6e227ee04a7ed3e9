package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// defaultPort is that of a service reference without one.
const defaultPort = 443

// viaServer calls a webhook behind a Service through the API server's proxy.
type viaServer struct {
	cluster   cluster.Interface
	reference apiextensionsv1.ServiceReference
}

// NewViaServer returns a caller of a Service that goes through the API server.
// The proxy checks no certificate, so that a call proves nothing about TLS.
func NewViaServer(c cluster.Interface, reference apiextensionsv1.ServiceReference) Caller {
	return viaServer{cluster: c, reference: reference}
}

func (v viaServer) port() int32 {
	if v.reference.Port == nil {
		return defaultPort
	}
	return *v.reference.Port
}

func (v viaServer) path() string {
	if v.reference.Path == nil {
		return ""
	}
	return *v.reference.Path
}

// String says where the service is.
func (v viaServer) String() string {
	return fmt.Sprintf("service %s/%s:%d%s (through the API server)", v.reference.Namespace, v.reference.Name, v.port(), v.path())
}

// Post implements [Caller].
func (v viaServer) Post(ctx context.Context, body []byte) (Response, error) {
	begin := time.Now()
	status, contentType, answer, err := v.cluster.PostToService(ctx, v.reference.Namespace, v.reference.Name, v.port(), v.path(), body)
	if err != nil {
		return Response{}, err
	}
	return Response{Status: status, ContentType: contentType, Body: answer, Took: time.Since(begin)}, nil
}

// For returns the converter that a CRD configures. A service is called through
// the API server of c, which may be nil for a CRD without one.
func For(c cluster.Interface, one crd.CRD) (Converter, error) {
	if one.ConversionStrategy() != apiextensionsv1.WebhookConverter {
		return None{}, nil
	}
	caller, err := CallerFor(c, one)
	if err != nil {
		return nil, err
	}
	return Webhook{Caller: caller, ReviewVersion: VersionOf(one)}, nil
}

// CallerFor returns the caller of the webhook that a CRD configures.
func CallerFor(c cluster.Interface, one crd.CRD) (Caller, error) {
	webhook := one.Spec.Conversion.Webhook
	switch {
	case webhook == nil || webhook.ClientConfig == nil:
		return nil, fmt.Errorf("CRD %s has the conversion strategy Webhook and no webhook", one.Name)
	case webhook.ClientConfig.Service != nil && c == nil:
		return nil, errors.New("the webhook is behind a service, which only a cluster can reach")
	case webhook.ClientConfig.Service != nil:
		return NewViaServer(c, *webhook.ClientConfig.Service), nil
	case webhook.ClientConfig.URL != nil:
		return NewDirect(*webhook.ClientConfig.URL, webhook.ClientConfig.CABundle, "")
	default:
		return nil, fmt.Errorf("CRD %s has neither a url nor a service of its webhook", one.Name)
	}
}

// VersionOf returns the version of ConversionReview that the API server
// speaks with the webhook of a CRD: the first of conversionReviewVersions that it
// knows (validation-rules of the API server: unknown entries are skipped).
func VersionOf(one crd.CRD) string {
	if conversion := one.Spec.Conversion; conversion != nil && conversion.Webhook != nil {
		for _, version := range conversion.Webhook.ConversionReviewVersions {
			if slices.Contains([]string{"v1", "v1beta1"}, version) {
				return version
			}
		}
	}
	return "v1"
}

package cmd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion/doctor"
	"github.com/crdver/kubectl-crdver/pkg/conversion/review"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/observe"
)

// patient is a CRD whose webhook is examined.
type patient struct {
	state lifecycle.State
	// client is nil for a manifest; objects are those of manifests.
	client  cluster.Interface
	objects []map[string]any
}

// patients returns the CRDs that a webhook converts; with --url, all of them.
func (o *webhookCheckOptions) patients(ctx context.Context, f *Factory, args []string) ([]patient, error) {
	if o.read.local() {
		return o.fromFiles(ctx, f)
	}
	client, err := f.Cluster()
	if err != nil {
		return nil, err
	}
	r := reading{Factory: f, flags: o.read, args: args, whole: true, look: observe.Options{Objects: true, Converter: true}}
	states, err := readCluster(ctx, r, client, func(s lifecycle.State) *lifecycle.State {
		if !o.concerns(s.CRD) {
			if len(args) > 0 {
				f.tell("%s has the conversion strategy None: there is no webhook\n", s.CRD.Name)
			}
			return nil
		}
		return &s
	})
	if err != nil {
		return nil, err
	}
	var found []patient
	for _, state := range states {
		if state != nil {
			found = append(found, patient{state: *state, client: client})
		}
	}
	return found, nil
}

func (o *webhookCheckOptions) fromFiles(ctx context.Context, f *Factory) ([]patient, error) {
	selector, err := labels.Parse(o.read.selector)
	if err != nil {
		return nil, fmt.Errorf("invalid --selector: %w", err)
	}
	input, err := readObjects(ctx, f, o.read.files)
	if err != nil {
		return nil, err
	}
	if len(input.crds) == 0 {
		return nil, errors.New("no CRD is among the manifests: the schemas of the versions are needed")
	}
	objects := make([]map[string]any, 0, len(input.objects))
	for _, object := range input.objects {
		objects = append(objects, object.Object)
	}
	var found []patient
	for _, one := range input.crds {
		switch {
		case !selector.Matches(labels.Set(one.Labels)):
		case !o.concerns(one):
			f.tell("%s has the conversion strategy None: there is no webhook\n", one.Name)
		default:
			found = append(found, patient{state: lifecycle.New(one, lifecycle.Observations{}), objects: objects})
		}
	}
	return found, nil
}

func (o *webhookCheckOptions) concerns(c crd.CRD) bool {
	return o.webhook.url != "" || c.ConversionStrategy() == apiextensionsv1.WebhookConverter
}

// way is how a webhook is called, and what can be seen of its certificate.
type way struct {
	caller review.Caller
	tls    doctor.TLS
	via    string
	// given says that --url leads elsewhere than the CRD does.
	given bool
}

// noCertificate says why a call through the API server tells nothing about TLS.
const noCertificate = "the API server's proxy shows no certificate: forward a port to the service and name it with --url"

// way finds out how to call a webhook.
func (o *webhookCheckOptions) way(one patient) (way, error) {
	config := clientConfigOf(one.state.CRD)
	switch {
	case o.webhook.url != "":
		return o.givenWay(config)
	case config == nil || config.Service == nil && config.URL == nil:
		return way{}, fmt.Errorf("the CRD %s has the conversion strategy Webhook, and neither a url nor a service: name the webhook with --url", one.state.CRD.Name)
	case config.URL != nil && o.via == viaServer:
		return way{}, fmt.Errorf("the webhook of %s is at a URL: the API server has no proxy for it; leave out --via server", one.state.CRD.Name)
	case config.URL != nil:
		return directWay(*config.URL, config.CABundle, "")
	case o.via == viaDirect:
		return directWay(serviceURL(config.Service), config.CABundle, "")
	case one.client == nil:
		return way{}, fmt.Errorf("the webhook of %s is behind a service, which only a cluster can reach: name its address with --url", one.state.CRD.Name)
	default:
		return way{
			caller: review.NewViaServer(one.client, *config.Service), via: viaServer,
			tls: doctor.TLS{Why: noCertificate, Host: serviceHost(config.Service), CA: config.CABundle},
		}, nil
	}
}

// givenWay is the one of --url. Without --ca the certificate has to be the one
// that the API server would accept, which is how a forwarded port is checked.
func (o *webhookCheckOptions) givenWay(config *apiextensionsv1.WebhookClientConfig) (way, error) {
	var ca []byte
	host := ""
	switch {
	case o.webhook.ca != "":
		var err error
		if ca, err = os.ReadFile(o.webhook.ca); err != nil {
			return way{}, fmt.Errorf("--ca: %w", err)
		}
	case config != nil && config.Service != nil:
		ca, host = config.CABundle, serviceHost(config.Service)
	case config != nil && config.URL != nil:
		ca = config.CABundle
		if parsed, err := url.Parse(*config.URL); err == nil {
			host = parsed.Hostname()
		}
	}
	found, err := directWay(o.webhook.url, ca, host)
	if err != nil {
		return way{}, fmt.Errorf("--url: %w", err)
	}
	found.given = true
	return found, nil
}

func directWay(address string, ca []byte, host string) (way, error) {
	direct, err := review.NewDirect(address, ca, host)
	if err != nil {
		return way{}, err
	}
	return way{caller: direct, via: viaDirect, tls: doctor.TLS{Present: direct.Certificates, Host: direct.Host(), CA: ca}}, nil
}

func clientConfigOf(c crd.CRD) *apiextensionsv1.WebhookClientConfig {
	if c.Spec.Conversion == nil || c.Spec.Conversion.Webhook == nil {
		return nil
	}
	return c.Spec.Conversion.Webhook.ClientConfig
}

// serviceHost is the name that the API server asks a service's certificate for.
func serviceHost(s *apiextensionsv1.ServiceReference) string {
	return s.Name + "." + s.Namespace + ".svc"
}

func servicePort(s *apiextensionsv1.ServiceReference) int {
	const standard = 443
	if s.Port == nil {
		return standard
	}
	return int(*s.Port)
}

func serviceURL(s *apiextensionsv1.ServiceReference) string {
	address := url.URL{Scheme: "https", Host: serviceHost(s) + ":" + strconv.Itoa(servicePort(s))}
	if s.Path != nil {
		address.Path = *s.Path
	}
	return address.String()
}

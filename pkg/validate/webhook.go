package validate

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

const (
	webhookPath      = "spec.conversion.webhook"
	clientConfigPath = webhookPath + ".clientConfig"
)

// clientConfig returns how the API server reaches the conversion webhook, or
// nil where no webhook converts.
func (s *Subject) clientConfig() *apiextensionsv1.WebhookClientConfig {
	if !s.Webhook() || s.CRD.Spec.Conversion.Webhook == nil {
		return nil
	}
	return s.CRD.Spec.Conversion.Webhook.ClientConfig
}

// converter returns what was seen of the conversion webhook, or nil if nothing
// was looked at.
func (s *Subject) converter() *lifecycle.Converter {
	if !s.Webhook() {
		return nil
	}
	return s.Observations.Converter
}

// service returns the service of the webhook as "NAMESPACE/NAME".
func (s *Subject) service() string {
	config := s.clientConfig()
	if config == nil || config.Service == nil {
		return ""
	}
	return config.Service.Namespace + "/" + config.Service.Name
}

// caBundle returns the bundle as the API server uses it: one of nothing but
// white space counts as none (webhookClientConfigForCRD).
func caBundle(config *apiextensionsv1.WebhookClientConfig) []byte {
	return bytes.TrimSpace(config.CABundle)
}

// injector returns the annotation that tells a tool to fill in the caBundle, or "".
func (s *Subject) injector() string {
	for _, name := range slices.Sorted(maps.Keys(s.CRD.Annotations)) {
		switch name {
		case "cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret", "cert-manager.io/inject-apiserver-ca",
			"service.beta.openshift.io/inject-cabundle":
			return name
		}
	}
	return ""
}

// under reports whether a path is another one or leads into it.
func under(path, parent string) bool {
	rest, ok := strings.CutPrefix(path, parent)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// clusterWide says what else a conversion that fails stops (case 37).
const clusterWide = "While conversion fails, objects can be neither read nor written at some of the versions, and what lists every resource stops " +
	"for the whole cluster: garbage collection, quota, and the deletion of namespaces. The objects are intact, whatever the API server's error says."

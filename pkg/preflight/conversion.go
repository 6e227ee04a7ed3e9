package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// conversion looks at how objects are converted before and after.
func (c *comparison) conversion() {
	before, after := c.oldCRD().ConversionStrategy(), c.newCRD().ConversionStrategy()
	webhook := apiextensionsv1.WebhookConverter
	switch {
	case before == webhook && after != webhook && c.newCRD().Spec.Conversion == nil:
		c.add(ruleConversionUnset, validate.Problem{
			Path: "spec", Message: "spec.conversion is absent: the strategy goes from Webhook to None" + c.unconverted(), Severity: c.unconvertedSeverity(),
		})
	case before == webhook && after != webhook:
		c.add(ruleConversionChanged, validate.Problem{
			Path: "spec.conversion.strategy", Message: "the strategy goes from Webhook to None" + c.unconverted(), Severity: c.unconvertedSeverity(),
		})
	case before != webhook && after == webhook:
		c.add(ruleConversionChanged, validate.Problem{
			Path:    "spec.conversion.strategy",
			Message: "the strategy goes from None to Webhook: objects at other versions cannot be read before the webhook answers",
		})
	case before == webhook:
		c.webhook()
	}
}

// unconverted says which objects would no longer be converted.
func (c *comparison) unconverted() string {
	if others := c.storedElsewhere(); len(others) > 0 {
		return fmt.Sprintf(", while objects may be stored at %s: they are relabelled, not converted", strings.Join(others, ", "))
	}
	return ""
}

// unconvertedSeverity is worse where objects may be persisted at another version
// than the one that they are read at.
func (c *comparison) unconvertedSeverity() v1alpha1.Severity {
	if len(c.newCRD().Served()) <= 1 && len(c.storedElsewhere()) == 0 {
		return v1alpha1.SeverityWarning
	}
	return v1alpha1.SeverityError
}

func (c *comparison) storedElsewhere() []string {
	if c.live() {
		return c.oldState().StoredElsewhere(c.newCRD().StorageVersion())
	}
	if before := c.oldCRD().StorageVersion(); before != c.newCRD().StorageVersion() {
		return []string{before}
	}
	return nil
}

// webhook looks at a webhook that stays, and at where it is.
func (c *comparison) webhook() {
	old, next := c.oldCRD().Spec.Conversion.Webhook, c.newCRD().Spec.Conversion.Webhook
	if old == nil || next == nil || old.ClientConfig == nil || next.ClientConfig == nil {
		return
	}
	if len(old.ClientConfig.CABundle) > 0 && len(next.ClientConfig.CABundle) == 0 {
		problem := validate.Problem{
			Path: "spec.conversion.webhook.clientConfig", Message: "the CRD that is there has a caBundle and the manifest has none",
		}
		if injector := injector(c.newCRD()); injector != "" {
			problem.Severity = v1alpha1.SeverityInfo
			problem.Message += "; the annotation " + injector + " has it injected again"
		}
		c.add(ruleCABundleDropped, problem)
	}
	if was, is := address(old.ClientConfig), address(next.ClientConfig); was != is {
		c.add(ruleConversionChanged, validate.Problem{
			Path: "spec.conversion.webhook.clientConfig", Message: fmt.Sprintf("the conversion webhook moves from %s to %s: it has to answer there before", was, is),
		})
	}
}

// injector returns the annotation by which a CRD asks for its caBundle, or "".
func injector(c crd.CRD) string {
	for _, key := range slices.Sorted(maps.Keys(c.Annotations)) {
		if strings.HasPrefix(key, "cert-manager.io/inject-") || key == "service.beta.openshift.io/inject-cabundle" {
			return key
		}
	}
	return ""
}

// address says where a webhook is.
func address(config *apiextensionsv1.WebhookClientConfig) string {
	switch {
	case config.Service != nil:
		port, path := int32(443), ""
		if config.Service.Port != nil {
			port = *config.Service.Port
		}
		if config.Service.Path != nil {
			path = *config.Service.Path
		}
		return fmt.Sprintf("service %s/%s:%d%s", config.Service.Namespace, config.Service.Name, port, path)
	case config.URL != nil:
		return *config.URL
	default:
		return "nowhere"
	}
}

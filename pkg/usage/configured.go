package usage

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

const admissionGroup = "admissionregistration.k8s.io"

// HPAs looks at what HorizontalPodAutoscalers scale. Their controller goes by
// group and kind, so that it works on whatever version they name.
func (s *Surroundings) HPAs() Collector {
	return &scan{Surroundings: s, source: v1alpha1.UsageHPA, kinds: []scanned{{
		resource: schema.GroupResource{Group: "autoscaling", Resource: "horizontalpodautoscalers"}, visit: s.hpa,
	}}}
}

func (s *Surroundings) hpa(object *unstructured.Unstructured, report reporter) error {
	type autoscaler struct {
		Spec struct {
			ScaleTargetRef struct {
				APIVersion string `json:"apiVersion"`
				Kind       string `json:"kind"`
				Name       string `json:"name"`
			} `json:"scaleTargetRef"`
		} `json:"spec"`
	}
	read, _ := decode[autoscaler](object)
	scaled := manages{Surroundings: s}
	scaled.add(read.Spec.ScaleTargetRef.APIVersion, read.Spec.ScaleTargetRef.Kind, object.GetNamespace(), read.Spec.ScaleTargetRef.Name)
	scaled.report(v1alpha1.UsageEvidence{
		Who: "HorizontalPodAutoscaler " + display(object), WhoKind: "object", Note: "scaling goes by group and kind, and works on",
	}, report)
	return nil
}

// rule is a rule of an admission webhook or policy.
type rule struct {
	APIGroups   []string `json:"apiGroups"`
	APIVersions []string `json:"apiVersions"`
	Resources   []string `json:"resources"`
}

// names returns the versions of a target that a rule names; "*" names none.
func (r rule) names(target Target) []string {
	group := slices.Contains(r.APIGroups, "*") || slices.Contains(r.APIGroups, target.Group())
	resource := slices.ContainsFunc(r.Resources, func(name string) bool {
		name, _, _ = strings.Cut(name, "/")
		return name == "*" || name == target.CRD.Spec.Names.Plural
	})
	if !group || !resource {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(target.Versions), func(version string) bool { return !slices.Contains(r.APIVersions, version) })
}

// others tells whether a rule applies to a served version beside one.
func (r rule) others(target Target, version string) bool {
	return slices.Contains(r.APIVersions, "*") || slices.ContainsFunc(target.CRD.Served(), func(served string) bool {
		return served != version && slices.Contains(r.APIVersions, served)
	})
}

// rules reports the versions that rules name.
func (s *Surroundings) rules(rules []rule, row v1alpha1.UsageEvidence, report reporter) {
	for _, target := range s.targets {
		for _, version := range target.Versions {
			var count int64
			alone := true
			for _, rule := range rules {
				if slices.Contains(rule.names(target), version) {
					count++
					alone = alone && !rule.others(target, version)
				}
			}
			if count == 0 {
				continue
			}
			one := row
			one.Version, one.What, one.Proves, one.Count, one.CountOf = version, "names", v1alpha1.ProvesReference, count, "rules"
			// With matchPolicy Equivalent it is called for the other versions through
			// this one, as long as this one is served.
			one.Note = "it also names other versions"
			if alone {
				one.Note = "once the version is not served, it is not asked about the others either: name them first"
			}
			report(target, one)
		}
	}
}

// Webhooks looks at the rules of admission webhooks.
func (s *Surroundings) Webhooks() Collector {
	kind := func(resource string) scanned {
		return scanned{resource: schema.GroupResource{Group: admissionGroup, Resource: resource}, visit: s.webhook}
	}
	return &scan{Surroundings: s, source: v1alpha1.UsageWebhook, kinds: []scanned{
		kind("validatingwebhookconfigurations"), kind("mutatingwebhookconfigurations"),
	}}
}

func (s *Surroundings) webhook(object *unstructured.Unstructured, report reporter) error {
	type configuration struct {
		Webhooks []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"webhooks"`
	}
	read, _ := decode[configuration](object)
	for _, webhook := range read.Webhooks {
		s.rules(webhook.Rules, v1alpha1.UsageEvidence{Who: object.GetName() + "/" + webhook.Name, WhoKind: "webhook"}, report)
	}
	return nil
}

// Policies looks at the rules of admission policies and of their bindings, and at
// what they take parameters from: the server reads those at that version.
func (s *Surroundings) Policies() Collector {
	kind := func(resource string) scanned {
		return scanned{resource: schema.GroupResource{Group: admissionGroup, Resource: resource}, visit: s.policy}
	}
	return &scan{Surroundings: s, source: v1alpha1.UsagePolicy, kinds: []scanned{
		kind("validatingadmissionpolicies"), kind("validatingadmissionpolicybindings"),
		kind("mutatingadmissionpolicies"), kind("mutatingadmissionpolicybindings"),
	}}
}

func (s *Surroundings) policy(object *unstructured.Unstructured, report reporter) error {
	type match struct {
		ResourceRules        []rule `json:"resourceRules"`
		ExcludeResourceRules []rule `json:"excludeResourceRules"`
	}
	type policy struct {
		Spec struct {
			ParamKind struct {
				APIVersion string `json:"apiVersion"`
				Kind       string `json:"kind"`
			} `json:"paramKind"`
			MatchConstraints match `json:"matchConstraints"` // Of a policy.
			MatchResources   match `json:"matchResources"`   // Of a binding.
		} `json:"spec"`
	}
	read, _ := decode[policy](object)
	row := v1alpha1.UsageEvidence{Who: object.GetKind() + " " + object.GetName(), WhoKind: "policy"}
	s.rules(slices.Concat(
		read.Spec.MatchConstraints.ResourceRules, read.Spec.MatchConstraints.ExcludeResourceRules,
		read.Spec.MatchResources.ResourceRules, read.Spec.MatchResources.ExcludeResourceRules,
	), row, report)
	if target, version, named := s.target(read.Spec.ParamKind.APIVersion, read.Spec.ParamKind.Kind); named {
		row.Version, row.What, row.Proves = version, "read", v1alpha1.ProvesUse
		row.Note = fmt.Sprintf("the API server reads its parameters at %s", version)
		report(target, row)
	}
	return nil
}

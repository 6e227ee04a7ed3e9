package plan

import (
	"slices"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// Rule is a permission that executing a plan needs.
type Rule struct {
	Verb, Group, Resource, Subresource, Name string
}

// String returns "patch customresourcedefinitions/status.apiextensions.k8s.io".
func (r Rule) String() string {
	s := r.Verb + " " + r.Resource
	if r.Subresource != "" {
		s += "/" + r.Subresource
	}
	if r.Group != "" {
		s += "." + r.Group
	}
	if r.Name != "" {
		s += " " + r.Name
	}
	return s
}

// Rules returns the permissions that the steps of a plan need.
func Rules(p v1alpha1.Plan) []Rule {
	if len(p.Steps) == 0 {
		return nil
	}
	c := p.Target.CRD
	crds := Rule{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: c.Name}
	need := func(rules []Rule, rule Rule, verb string) []Rule {
		rule.Verb = verb
		if slices.Contains(rules, rule) {
			return rules
		}
		return append(rules, rule)
	}
	rules := need(nil, crds, "get")
	objects := Rule{Group: c.Group, Resource: c.Resource}
	rewritten := objects
	rewritten.Subresource = p.Intent.Path
	for _, step := range p.Steps {
		if step.Patch != nil {
			target := crds
			target.Subresource = step.Patch.Subresource
			rules = need(rules, target, "patch")
		}
		if step.Marks != "" {
			rules = need(rules, crds, "patch")
		}
		rules = svmRules(rules, step, crds, need)
		switch step.Action {
		case v1alpha1.ActionRehearse:
			// The answer of the dry run is compared with the object as it is.
			rules = need(rules, objects, "list")
			rules = need(rules, objects, "get")
			rules = need(rules, rewritten, "patch")
		case v1alpha1.ActionBarrier, v1alpha1.ActionMigrate, v1alpha1.ActionVerify:
			rules = need(rules, objects, "list")
			rules = need(rules, rewritten, "patch")
			if p.Intent.Retry != nil || p.Intent.RefusedThrough != "" || p.Intent.Path != "" {
				rules = need(rules, objects, "get") // Each by its name, or where one seems to be gone.
			}
		case v1alpha1.ActionCleanManagedFields:
			rules = need(rules, objects, "list")
			rules = need(rules, objects, "patch")
		case v1alpha1.ActionServe, v1alpha1.ActionUnserve, v1alpha1.ActionDeprecate, v1alpha1.ActionUndeprecate,
			v1alpha1.ActionDeprecateOlder, v1alpha1.ActionRemove, v1alpha1.ActionListStored, v1alpha1.ActionBrownout:
			rules = need(rules, objects, "list")
		case v1alpha1.ActionAdd, v1alpha1.ActionSetStorage, v1alpha1.ActionTrim, v1alpha1.ActionPutBack,
			v1alpha1.ActionWaitForSVM, v1alpha1.ActionInTreeMigrate, v1alpha1.ActionDeleteSVM,
			v1alpha1.ActionSoak, v1alpha1.ActionClear, v1alpha1.ActionRecord:
		}
	}
	return rules
}

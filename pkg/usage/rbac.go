package usage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

const (
	rbacGroup = "rbac.authorization.k8s.io"
	// maxSubjects is how many subjects are told one by one.
	maxSubjects = 10
	clusterRole = "ClusterRole"
)

// Access looks at who may write the objects, at any version: rules of RBAC have no
// versions. That is a capability and no use. Subjects whose roles name the resource
// are told one by one, up to a few; those that may write everything, or belong to
// the system, are counted together, unless all is asked for.
func (s *Surroundings) Access(all bool) Collector {
	a := &access{Surroundings: s, all: all, roles: map[string][]grant{}, subjects: map[string]map[subject]*could{}}
	kind := func(resource string, visit func(*unstructured.Unstructured, reporter) error) scanned {
		return scanned{resource: schema.GroupResource{Group: rbacGroup, Resource: resource}, visit: visit}
	}
	return &scan{Surroundings: s, source: v1alpha1.UsageRBAC, optional: true, finish: a.finish, kinds: []scanned{
		kind("clusterroles", a.role), kind("roles", a.role), kind("clusterrolebindings", a.binding), kind("rolebindings", a.binding),
	}}
}

type access struct {
	*Surroundings

	all bool
	// roles are those that grant something, by kind/namespace/name.
	roles map[string][]grant
	// subjects are by the name of the CRD.
	subjects map[string]map[subject]*could
}

// grant is what a role lets its subjects do to the objects of a CRD.
type grant struct {
	crd   string
	verbs []string
	// named says that a rule names the resource, and not "*".
	named bool
}

// subject is who is bound to a role.
type subject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// could is what a subject may do.
type could struct {
	named    bool
	bindings []string
	verbs    []string
}

// policyRule is a rule of a role.
type policyRule struct {
	APIGroups []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
}

// writes returns which verbs that write a rule grants for a resource or one of its
// subresources, and whether it names the resource.
func (r policyRule) writes(resource schema.GroupResource) (verbs []string, named bool) {
	if !slices.Contains(r.APIGroups, "*") && !slices.Contains(r.APIGroups, resource.Group) {
		return nil, false
	}
	matches := false
	for _, name := range r.Resources {
		name, _, _ = strings.Cut(name, "/")
		named = named || name == resource.Resource
		matches = matches || name == "*" || name == resource.Resource
	}
	if !matches {
		return nil, false
	}
	for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
		if slices.Contains(r.Verbs, verb) || slices.Contains(r.Verbs, "*") {
			verbs = append(verbs, verb)
		}
	}
	return verbs, named
}

func roleKey(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

func (a *access) role(object *unstructured.Unstructured, _ reporter) error {
	read, _ := decode[struct {
		Rules []policyRule `json:"rules"`
	}](object)
	for _, target := range a.targets {
		one := grant{crd: target.CRD.Name}
		for _, rule := range read.Rules {
			verbs, named := rule.writes(target.Resource("").GroupResource())
			one.verbs = union(one.verbs, verbs)
			one.named = one.named || named && len(verbs) > 0
		}
		if len(one.verbs) > 0 {
			key := roleKey(object.GetKind(), object.GetNamespace(), object.GetName())
			a.roles[key] = append(a.roles[key], one)
		}
	}
	return nil
}

func union(verbs, more []string) []string {
	for _, verb := range more {
		if !slices.Contains(verbs, verb) {
			verbs = append(verbs, verb)
		}
	}
	return verbs
}

func (a *access) binding(object *unstructured.Unstructured, _ reporter) error {
	read, _ := decode[struct {
		RoleRef struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"roleRef"`
		Subjects []subject `json:"subjects"`
	}](object)
	namespace := object.GetNamespace()
	if read.RoleRef.Kind == clusterRole {
		namespace = ""
	}
	for _, grant := range a.roles[roleKey(read.RoleRef.Kind, namespace, read.RoleRef.Name)] {
		for _, who := range read.Subjects {
			subjects := a.subjects[grant.crd]
			if subjects == nil {
				subjects = map[subject]*could{}
				a.subjects[grant.crd] = subjects
			}
			if subjects[who] == nil {
				subjects[who] = &could{}
			}
			subjects[who].add(object.GetKind()+" "+display(object), grant)
		}
	}
	return nil
}

func (c *could) add(binding string, grant grant) {
	c.bindings = append(c.bindings, binding)
	c.named = c.named || grant.named
	c.verbs = union(c.verbs, grant.verbs)
}

// system tells whether a subject belongs to the control plane.
func (s subject) system() bool {
	return s.Kind != "ServiceAccount" && strings.HasPrefix(s.Name, "system:") || s.Kind == "ServiceAccount" && s.Namespace == "kube-system"
}

func (s subject) String() string {
	if s.Kind == "ServiceAccount" {
		return s.Namespace + "/" + s.Name
	}
	return s.Name
}

func (a *access) finish(report reporter) []v1alpha1.Unlooked {
	for _, target := range a.targets {
		subjects := a.subjects[target.CRD.Name]
		who := slices.SortedFunc(maps.Keys(subjects), func(x, y subject) int {
			return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
		})
		var rest []string
		told := 0
		for _, one := range who {
			if a.all || subjects[one].named && !one.system() && told < maxSubjects {
				told++
				a.report(target, subjects[one].evidence(one), report)
				continue
			}
			rest = append(rest, one.Kind+" "+one.String())
		}
		if len(rest) > 0 {
			a.report(target, v1alpha1.UsageEvidence{
				Who: fmt.Sprintf("%d more", len(rest)), WhoKind: "subjects", Count: int64(len(rest)), CountOf: "subjects",
				Examples: rest[:min(len(rest), maxExamples)], Note: "through wildcards, or of the system; --could shows each",
			}, report)
		}
	}
	return nil
}

func (c *could) evidence(who subject) v1alpha1.UsageEvidence {
	kinds := map[string]string{"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
	return v1alpha1.UsageEvidence{
		Who: who.String(), WhoKind: cmp.Or(kinds[who.Kind], "user"), Count: int64(len(c.bindings)), CountOf: "bindings",
		Examples: c.bindings[:min(len(c.bindings), maxExamples)], Note: strings.Join(c.verbs, ", "),
	}
}

// report reports a capability for each version: it is for all of them.
func (a *access) report(target Target, row v1alpha1.UsageEvidence, report reporter) {
	row.What, row.Proves = "could", v1alpha1.ProvesCapability
	for _, version := range target.Versions {
		row.Version = version
		report(target, row)
	}
}

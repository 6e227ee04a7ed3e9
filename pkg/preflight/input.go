package preflight

import (
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// Input is one manifest and what it would replace.
type Input struct {
	// New is the manifest.
	New *validate.Subject
	// Old is the CRD that is there, on a cluster or in other manifests; nil if
	// there is none, and the manifest creates it.
	Old *validate.Subject
	// Users are who wrote live objects at the versions that the manifest removes,
	// served or not, or unserves, by version; absent for a version that was not
	// asked about.
	Users map[string]Users
	// Objects are what the live objects say about the new schemas; nil if they
	// were not looked at.
	Objects *Evidence
	// Admission is what the server's dry run of the update said; nil without one.
	Admission *Admission
	// Rules are the rules of validate whose findings are compared, and PreflightRules
	// those of this package.
	Rules          []validate.Rule
	PreflightRules []validate.Rule
	// All keeps findings of validate that were there before.
	All bool
}

// Users are the managers that wrote objects at a version (managedFields).
type Users struct {
	// Objects is how many objects name the version.
	Objects int64
	// Managers say who, most objects first: "helm (12, last 2026-11-02)".
	Managers []string
	// Error says why they could not be found out.
	Error string
}

// Admission is what a dry run of the update said.
type Admission struct {
	// Denied is why the server refuses, "" if it does not.
	Denied string
	// By is the policy or webhook that does, as far as the server names it.
	By string
	// Unknown is why a dry run says nothing: "" if it does.
	Unknown string
	// Validation says that it is validation that refuses, and no policy.
	Validation bool
}

// comparison is one Compare.
type comparison struct {
	Input

	// old and new are the CRDs as the API server validates them.
	oldInternal, newInternal *apiextensions.CustomResourceDefinition
	found                    []validate.Found
	steps, after             []string
	// gone are the stored versions that the manifest lacks.
	gone map[string]bool
	// oldVersions and newVersions are the entries of spec.versions by name: a CRD can
	// have thousands.
	oldVersions, newVersions map[string]*apiextensionsv1.CustomResourceDefinitionVersion
	// unknown says that something which matters is not known.
	unknown bool
	// blocked says that no step makes the server take it.
	blocked bool
	// older says that the cluster has a newer CRD than the manifest.
	older bool
	// refusedWithSteps says that steps do.
	refusedWithSteps bool
}

func (c *comparison) oldCRD() crd.CRD           { return c.Old.CRD }
func (c *comparison) newCRD() crd.CRD           { return c.New.CRD }
func (c *comparison) live() bool                { return c.Old != nil && c.Old.Live() }
func (c *comparison) oldState() lifecycle.State { return c.Old.State }

// byName returns the entries of spec.versions; of those with the same name, the first.
func byName(c crd.CRD) map[string]*apiextensionsv1.CustomResourceDefinitionVersion {
	entries := make(map[string]*apiextensionsv1.CustomResourceDefinitionVersion, len(c.Spec.Versions))
	for i := range c.Spec.Versions {
		if entry := &c.Spec.Versions[i]; entries[entry.Name] == nil {
			entries[entry.Name] = entry
		}
	}
	return entries
}

// command returns a command of this tool for the CRD.
func (c *comparison) command(verb, version string) string { return c.New.Command(verb, version) }

// step adds something to do first, once.
func (c *comparison) step(text string) { c.steps = appendOnce(c.steps, text) }

// afterwards adds something to do once the manifest is applied, once.
func (c *comparison) afterwards(text string) { c.after = appendOnce(c.after, text) }

func appendOnce(list []string, text string) []string {
	for _, known := range list {
		if known == text {
			return list
		}
	}
	return append(list, text)
}

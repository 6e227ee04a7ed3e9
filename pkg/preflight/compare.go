package preflight

import (
	"cmp"
	"slices"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

// What a manifest does to what is there.
const (
	changeCreate = "create"
	changeUpdate = "update"
)

// Compare answers what applying the manifest does.
func Compare(input Input) v1alpha1.Preflight {
	c := &comparison{Input: input, gone: map[string]bool{}, newVersions: byName(input.New.CRD)}
	result := v1alpha1.Preflight{
		CRD: c.New.CRD.Name, Origin: c.New.CRD.Origin.String(), Change: changeCreate, Findings: []v1alpha1.Finding{},
	}
	if c.Old != nil {
		result.Change, result.Against = changeUpdate, c.Old.CRD.Origin.String()
		c.oldVersions = byName(c.Old.CRD)
		c.compare()
	}
	c.admission()
	result.Existing = c.static()
	result.ServerDryRun = c.Admission.outcome()
	if c.Objects != nil {
		result.Objects = c.Objects.document()
	}
	for _, found := range c.found {
		// This command changes no manifest.
		found.Fixable = false
		result.Findings = append(result.Findings, found.Finding)
	}
	slices.SortStableFunc(result.Findings, func(a, b v1alpha1.Finding) int {
		return cmp.Or(validate.CompareSeverity(a.Severity, b.Severity), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	result.Steps, result.AfterSteps = c.steps, c.after
	result.Verdict = c.verdict()
	return result
}

// compare looks at everything that two CRDs can tell.
func (c *comparison) compare() {
	c.refusals()
	if !c.older {
		// What a manifest does that nobody should apply only distracts.
		c.untrusted()
		c.served()
		c.storage()
		c.deprecation()
	}
	c.unreadable()
	c.conversion()
	c.schemas()
	c.owner()
}

// verdict is the answer in one word: the worst of what was found. What the
// server refuses is fine after steps only if steps clear all of it.
func (c *comparison) verdict() v1alpha1.Verdict {
	breaks, unknown := false, c.unknown
	for _, found := range c.found {
		if found.Suppressed != nil {
			continue
		}
		breaks = breaks || found.Severity == v1alpha1.SeverityError && !found.Refused && !found.Cleared
		unknown = unknown || found.Rule == ruleObjectsUnknown
	}
	switch {
	case c.blocked:
		return v1alpha1.VerdictRefused
	case breaks:
		return v1alpha1.VerdictBreaks
	case c.refusedWithSteps || len(c.steps) > 0:
		return v1alpha1.VerdictOKAfter
	case unknown:
		return v1alpha1.VerdictUnknown
	default:
		return v1alpha1.VerdictOK
	}
}

// add adds a finding of a rule of this package. It returns false where the rule
// does not apply, or the manifest's own annotation says that it does not count.
func (c *comparison) add(id string, p validate.Problem, options ...func(*validate.Found)) bool {
	rule, ok := validate.Find(c.PreflightRules, id)
	if !ok {
		return false
	}
	found := validate.NewFound(rule, c.New.CRD, p)
	for _, option := range options {
		option(&found)
	}
	one := []validate.Found{found}
	validate.Suppress(c.New.CRD, one)
	c.found = append(c.found, one...)
	return one[0].Suppressed == nil
}

// refused marks a finding as what the server itself refuses.
func refused(found *validate.Found) { found.Refused, found.Suppressed = true, nil }

// clearable marks a finding as one that the steps clear.
func clearable(found *validate.Found) { found.Cleared = true }

// undecided marks a finding of which nobody knows whether it is so: it makes an
// answer unknown, and not one that breaks.
func undecided(found *validate.Found) { found.Cleared = true }

// static applies the rules of validate to the manifest. Findings that the old
// CRD has, too, are left out (ratcheting), and counted.
func (c *comparison) static() (existing int) {
	var before []validate.Found
	if c.Old != nil && !c.All {
		before = validate.Run(c.Rules, c.Old)
	}
	known := map[string]int{}
	for _, found := range before {
		known[identity(found)]++
	}
	for _, found := range validate.Run(c.applicable(), c.New) {
		if c.Old != nil && found.Refused {
			// An update is validated as such: see refusals.
			continue
		}
		if known[identity(found)] > 0 {
			known[identity(found)]--
			existing++
			continue
		}
		if found.Refused {
			c.blocked = true
		}
		c.found = append(c.found, found)
	}
	return existing
}

// applicable returns the rules of validate that can be compared: how a manifest
// is written cannot, with a live CRD.
func (c *comparison) applicable() []validate.Rule {
	if c.All || !c.live() {
		return c.Rules
	}
	return slices.DeleteFunc(slices.Clone(c.Rules), func(r validate.Rule) bool { return r.ManifestOnly })
}

// identity tells whether a finding was there before: the same rule says the same
// of the same version. Paths move when versions do.
func identity(found validate.Found) string {
	return found.Rule + "\x00" + found.Version + "\x00" + found.Message
}

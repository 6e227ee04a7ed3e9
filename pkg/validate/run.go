package validate

import (
	"cmp"
	"slices"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// Found is a finding, and what would make it go away.
type Found struct {
	v1alpha1.Finding

	Edits []Edit
	// Refused says that the API server itself refuses the CRD because of it.
	Refused bool
	// Cleared says that steps which come before make it go away, or that it is not
	// decided whether it is so (preflight).
	Cleared bool
}

// Run applies rules to a subject. The order of the findings depends on nothing
// but the subject: worst first, then by field, then by rule.
func Run(rules []Rule, s *Subject) []Found {
	var found []Found
	add := func(r Rule, p Problem, refused bool) {
		one := NewFound(r, s.CRD, p)
		one.Refused = refused
		found = append(found, one)
	}
	claimed(rules, s, add)
	for _, rule := range rules {
		if rule.Check == nil || rule.LiveOnly && !s.Live() {
			continue
		}
		for _, problem := range rule.Check(s) {
			add(rule, problem, false)
		}
	}
	Suppress(s.CRD, found)
	slices.SortStableFunc(found, func(a, b Found) int {
		return cmp.Or(rank(a.Severity)-rank(b.Severity), comparePaths(a.Path, b.Path), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	return found
}

// NewFound returns a problem of a rule as a finding.
func NewFound(r Rule, c crd.CRD, p Problem) Found {
	severity := cmp.Or(p.Severity, r.Severity)
	if r.fixedSeverity {
		severity = r.Severity
	}
	return Found{
		Finding: v1alpha1.Finding{
			Rule: r.ID, Severity: severity, CRD: c.Name,
			Version: p.Version, Path: p.Path, Message: p.Message, Fix: cmp.Or(p.Fix, r.Fix), Fixable: len(p.Edits) > 0 && !c.Origin.Live(),
		},
		Edits: p.Edits,
	}
}

// CompareSeverity orders severities, worst first.
func CompareSeverity(a, b v1alpha1.Severity) int { return rank(a) - rank(b) }

// rank orders severities, worst first.
func rank(severity v1alpha1.Severity) int {
	return slices.Index([]v1alpha1.Severity{v1alpha1.SeverityError, v1alpha1.SeverityWarning, v1alpha1.SeverityInfo}, severity)
}

// AtLeast reports whether a severity is as bad as another, or worse.
func AtLeast(severity, limit v1alpha1.Severity) bool { return rank(severity) <= rank(limit) }

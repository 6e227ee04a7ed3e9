package validate

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// Rule is one rule. Its texts end up in the help, in SARIF and in the README.
type Rule struct {
	// ID is the stable name, in kebab case: "single-storage-version".
	ID string
	// Command is the command that applies the rule; empty is "validate".
	Command string
	// Severity of the findings, unless a problem has its own.
	Severity v1alpha1.Severity
	// Summary is one line, without a full stop: what is wrong when the rule fires.
	Summary string
	// Why says why it matters, in full sentences.
	Why string
	// Fix says how to get rid of the finding, in full sentences.
	Fix string
	// LiveOnly rules look at what only a cluster knows.
	LiveOnly bool
	// ManifestOnly rules look at how a manifest is written, which no live CRD
	// tells: they have no before and after.
	ManifestOnly bool
	// Fixable rules have problems with edits.
	Fixable bool

	// Check returns the problems of a CRD; nil for a rule that only claims.
	Check func(*Subject) []Problem
	// Claims reports whether an error of the API server's validation is this
	// rule's to explain; nil for a rule that claims none. The first rule of the
	// registry that claims an error gets it.
	Claims func(Refusal) bool
	// Explain returns the problem that a claimed error is; nil takes upstream's
	// words as they are.
	Explain func(*Subject, Refusal) Problem

	// fixedSeverity says that a user chose Severity, for all problems.
	fixedSeverity bool
}

// Document returns the rule as it is printed.
func (r Rule) Document() v1alpha1.Rule {
	return v1alpha1.Rule{
		ID: r.ID, Command: cmp.Or(r.Command, "validate"), Severity: r.Severity, Summary: r.Summary, Why: r.Why, Fix: r.Fix,
		LiveOnly: r.LiveOnly, Fixable: r.Fixable,
	}
}

// Problem is what a rule found.
type Problem struct {
	// Severity, where it is not the rule's.
	Severity v1alpha1.Severity
	// Version is the version that it is about, "" for the whole CRD.
	Version string
	// Path is the field in the v1 API: "spec.versions[1].deprecationWarning". For
	// a manifest it is the place that is shown.
	Path string
	// Message says what is wrong with this CRD, lower-case, without a full stop.
	Message string
	// Fix is what to do here, where it is more exact than the rule's.
	Fix string
	// Edits make the problem go away; none where a person has to decide.
	Edits []Edit
}

// Edit is a change of a manifest.
type Edit struct {
	// Path is the field, as in Problem.
	Path string
	// Set is the new value of a scalar field, which is added if it is missing.
	Set any
	// Remove takes the field away instead.
	Remove bool
}

// Refusal is an error with which the API server would refuse a CRD.
type Refusal struct {
	*field.Error

	// Path is the field in the v1 API; the error's own is that of the internal one.
	Path string
}

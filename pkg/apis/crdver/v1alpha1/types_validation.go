package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Severity is how bad a finding is.
type Severity string

// The severities, worst first.
const (
	// SeverityError is what the API server refuses, or what makes objects
	// unreadable or loses data.
	SeverityError Severity = "error"
	// SeverityWarning is what works now and will hurt.
	SeverityWarning Severity = "warning"
	// SeverityInfo is worth knowing and needs no change.
	SeverityInfo Severity = "info"
)

// ValidationReport is what `kubectl crdver validate` prints.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ValidationReport struct {
	metav1.TypeMeta `json:",inline"`

	// Summary counts what is in Findings.
	Summary FindingSummary `json:"summary"`
	// CRDs are what was looked at: those of manifests in their order, those of a
	// cluster by name.
	CRDs []CheckedCRD `json:"crds"`
	// Findings are in the order of the CRDs, and within a CRD worst first.
	Findings []Finding `json:"findings"`
}

// CheckedCRD is a CRD that was looked at.
type CheckedCRD struct {
	// Name is plural.group.
	Name string `json:"name"`
	// Origin is where it was read from: "file.yaml:12", "-" or "cluster".
	Origin string `json:"origin"`
}

// FindingSummary counts findings.
type FindingSummary struct {
	// CRDs is how many CRDs were looked at.
	CRDs int `json:"crds"`
	// Errors, Warnings and Infos count findings that are not suppressed.
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	Infos    int `json:"infos"`
	// Suppressed counts findings that somebody chose to ignore.
	Suppressed int `json:"suppressed"`
}

// Finding is one thing that a rule says of a CRD.
type Finding struct {
	// Rule is the rule's id, which stays the same between releases.
	Rule string `json:"rule"`
	// Severity is that of the rule unless the configuration changes it.
	Severity Severity `json:"severity"`
	// CRD is the name of the CRD (plural.group).
	CRD string `json:"crd"`
	// Version is the version that the finding is about, if it is about one.
	Version string `json:"version,omitempty"`
	// Path is the field, as "spec.versions[1].deprecationWarning". Where the API
	// server refuses the field it is upstream's own path.
	Path string `json:"path,omitempty"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Fix says what to do about it, as a command where one does it.
	Fix string `json:"fix,omitempty"`
	// Fixable says that --fix edits the manifest so that the finding goes away.
	Fixable bool `json:"fixable,omitempty"`
	// Location is where the field is in a manifest; absent for a live CRD.
	Location *Location `json:"location,omitempty"`
	// Suppressed says who chose to ignore the finding, and why; absent if nobody did.
	Suppressed *Suppression `json:"suppressed,omitempty"`
}

// Location is a place in a manifest.
type Location struct {
	// File is the path as it was given, or "-" for standard input.
	File string `json:"file"`
	// Line and Column count from 1; Column counts characters, not bytes. They are
	// absent where the text has no places, as in what a kustomization builds.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Text is the line, without the line break.
	Text string `json:"text,omitempty"`
}

// Suppression is why a finding does not count.
type Suppression struct {
	// By is "annotation", where the CRD itself says so.
	By string `json:"by"`
	// Reason is what was written with it, if anything.
	Reason string `json:"reason,omitempty"`
}

// RuleList is what `kubectl crdver validate --list-rules` and `explain` print.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type RuleList struct {
	metav1.TypeMeta `json:",inline"`

	// Items are the rules by id.
	Items []Rule `json:"items"`
}

// Rule is what findings refer to.
type Rule struct {
	// ID names the rule in findings, flags and annotations.
	ID string `json:"id"`
	// Command is the command that applies the rule: validate or preflight.
	Command string `json:"command"`
	// Severity is that of its findings, unless a finding says otherwise.
	Severity Severity `json:"severity"`
	// Summary says in one line what the rule is about.
	Summary string `json:"summary"`
	// Why says why it matters.
	Why string `json:"why"`
	// Fix says how to get rid of a finding.
	Fix string `json:"fix"`
	// LiveOnly says that the rule needs a cluster.
	LiveOnly bool `json:"liveOnly,omitempty"`
	// Fixable says that --fix can edit manifests for some of its findings.
	Fixable bool `json:"fixable,omitempty"`
}

// ValidationConfig is the configuration file .crdver.yaml.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ValidationConfig struct {
	metav1.TypeMeta `json:",inline"`

	// Rules are the ids of the only rules to apply; empty applies all.
	Rules []string `json:"rules,omitempty"`
	// Skip are the ids of rules not to apply.
	Skip []string `json:"skip,omitempty"`
	// Severity changes the severity of rules, by id.
	Severity map[string]Severity `json:"severity,omitempty"`
	// FailOn is the lowest severity that makes the exit code 2: error, warning or info.
	FailOn Severity `json:"failOn,omitempty"`
}

// Verdict is what a manifest does to a CRD when it is applied.
type Verdict string

// The verdicts, best first.
const (
	// VerdictOK is taken by the server and breaks nothing.
	VerdictOK Verdict = "ok"
	// VerdictOKAfter is fine once Steps were done.
	VerdictOKAfter Verdict = "ok after"
	// VerdictBreaks is taken by the server and breaks clients or loses data.
	VerdictBreaks Verdict = "breaks"
	// VerdictRefused is not taken by the server.
	VerdictRefused Verdict = "refused"
	// VerdictUnknown could not be found out.
	VerdictUnknown Verdict = "unknown"
)

// PreflightReport is what `kubectl crdver preflight` prints.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type PreflightReport struct {
	metav1.TypeMeta `json:",inline"`

	// Summary counts what is in the items.
	Summary FindingSummary `json:"summary"`
	// Items are the CRDs of the manifests, in their order.
	Items []Preflight `json:"items"`
}

// Preflight is what applying one manifest would do.
type Preflight struct {
	// CRD is the name of the CRD (plural.group).
	CRD string `json:"crd"`
	// Change is "create", "update" or "unchanged".
	Change string `json:"change"`
	// Verdict is the answer in one word.
	Verdict Verdict `json:"verdict"`
	// Steps are what has to be done first, in order: commands where one does it.
	Steps []string `json:"steps,omitempty"`
	// AfterSteps are what to do once the manifest is applied.
	AfterSteps []string `json:"afterSteps,omitempty"`
	// Origin is where the manifest was read from, Against what it was compared with.
	Origin  string `json:"origin"`
	Against string `json:"against,omitempty"`
	// Objects is how the live objects were looked at; absent without a cluster.
	Objects *ObjectsChecked `json:"objects,omitempty"`
	// ServerDryRun is what the server said to a dry run of the change: "taken",
	// "denied", or "unknown: " and why; absent if it was not asked.
	ServerDryRun string `json:"serverDryRun,omitempty"`
	// Findings are worst first. Those that were there before are left out unless
	// --all asks for them.
	Findings []Finding `json:"findings"`
	// Existing is how many findings were left out because they were there before.
	Existing int `json:"existing,omitempty"`
}

// ObjectsChecked is how many live objects were held against the new schema.
type ObjectsChecked struct {
	// Checked objects were read, of Total; Total is absent if it is not known.
	Checked int64  `json:"checked"`
	Total   *int64 `json:"total,omitempty"`
	// Invalid objects would be refused on their next write, Pruned ones would
	// lose fields.
	Invalid int64 `json:"invalid"`
	Pruned  int64 `json:"pruned"`
	// Complete says that all objects were read.
	Complete bool `json:"complete"`
	// Error says why not all could be read.
	Error string `json:"error,omitempty"`
}

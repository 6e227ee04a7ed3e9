package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindUsageReport is what `kubectl crdver usage` prints.
const KindUsageReport = "UsageReport"

// UsageVerdict is what the evidence of a version comes to. There is no verdict
// "unused": nobody can look everywhere.
type UsageVerdict string

// The verdicts.
const (
	// UsageInUse: somebody uses the version, or something that acts by itself
	// names it.
	UsageInUse UsageVerdict = "in use"
	// UsageProbablyUnused: what there is, is old or a record of the past; or a
	// source that would tell could not be looked at.
	UsageProbablyUnused UsageVerdict = "probably unused"
	// UsageNoEvidence: everything that tells of use was looked at, and nothing
	// was found.
	UsageNoEvidence UsageVerdict = "no evidence of use"
)

// UsageProof is how much a piece of evidence proves.
type UsageProof string

// The proofs, strongest first.
const (
	// ProvesUse: a request was made at the version.
	ProvesUse UsageProof = "use"
	// ProvesReference: something names the version, and breaks or asks for it when
	// it is not served.
	ProvesReference UsageProof = "reference"
	// ProvesPastUse: a request was made at the version by one that has since moved
	// on, or whose last request was at an unknown time of the past.
	ProvesPastUse UsageProof = "past use"
	// ProvesCapability: somebody may use the resource, at any version.
	ProvesCapability UsageProof = "capability"
)

// UsageSource is where evidence was found. The names stay the same between
// releases.
type UsageSource string

// The sources.
const (
	UsageManagedFields  UsageSource = "managed-fields"
	UsageLastApplied    UsageSource = "last-applied"
	UsageHelm           UsageSource = "helm"
	UsageArgoCD         UsageSource = "argocd"
	UsageFlux           UsageSource = "flux"
	UsageMetrics        UsageSource = "metrics"
	UsageAudit          UsageSource = "audit"
	UsageRBAC           UsageSource = "rbac"
	UsageManifest       UsageSource = "manifest"
	UsageWebhook        UsageSource = "webhook"
	UsagePolicy         UsageSource = "policy"
	UsageOwnerReference UsageSource = "owner-reference"
	UsageHPA            UsageSource = "hpa"
)

// UsageReport is what `kubectl crdver usage` prints.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type UsageReport struct {
	metav1.TypeMeta `json:",inline"`

	// Window is how old a request may be to count as use.
	Window metav1.Duration `json:"window"`
	// Time is the moment that the window ends at.
	Time metav1.Time `json:"time"`
	// Items are the versions that were asked for, by CRD, highest priority first.
	Items []VersionUsage `json:"items"`
}

// VersionUsage is who uses one version of a CRD.
type VersionUsage struct {
	// CRD is the name of the CRD (plural.group).
	CRD     string `json:"crd"`
	Version string `json:"version"`
	// Served, Storage and Deprecated are the version's flags.
	Served     bool `json:"served"`
	Storage    bool `json:"storage"`
	Deprecated bool `json:"deprecated"`
	// Objects is the number of objects of the CRD; absent if it is unknown.
	Objects *int64 `json:"objects,omitempty"`
	// Notes are things to know of the version that are no evidence.
	Notes []string `json:"notes,omitempty"`
	// Verdict is what the evidence comes to, Why the reason in one sentence.
	Verdict UsageVerdict `json:"verdict"`
	Why     string       `json:"why"`
	// Evidence is what was found, what proves most first.
	Evidence []UsageEvidence `json:"evidence"`
	// NotLooked are the sources that were not, or not completely, looked at.
	NotLooked []Unlooked `json:"notLooked,omitempty"`
}

// UsageEvidence is one thing that tells of the use of a version.
type UsageEvidence struct {
	// Version is the version that is used.
	Version string `json:"version"`
	// Who is a field manager, a user, a user agent, the name of an object, the first
	// place in a file (file:line:column); WhoKind says which: "manager", "user", "group", "serviceAccount",
	// "subjects" (several of these), "userAgent", "client", "object", "resource"
	// (the objects of one), "file", "release", "webhook", "policy".
	Who     string `json:"who"`
	WhoKind string `json:"whoKind"`
	// What was done: "read", "write", "apply", "could" (be able to), "names",
	// "selects" (by the version), "mentions" (in text); or a verb of the API.
	What string `json:"what"`
	// Subresource is the one that was written, if any.
	Subresource string `json:"subresource,omitempty"`
	// Count is how many there are of CountOf: "objects", "requests", "bindings",
	// "places" (of a file), "rules". 0 means unknown.
	Count   int64  `json:"count,omitempty"`
	CountOf string `json:"countOf,omitempty"`
	// LastSeen is the time of the last request; absent if it is unknown.
	LastSeen *metav1.Time `json:"lastSeen,omitempty"`
	// Source is where it was found.
	Source UsageSource `json:"source"`
	// Proves is how much that proves.
	Proves UsageProof `json:"proves"`
	// Examples are the first few names, or file:line.
	Examples []string `json:"examples,omitempty"`
	// Stale says that the one named has moved on to another version since.
	Stale bool `json:"stale,omitempty"`
	// Requests is what is known of the requests, if requests were counted.
	Requests *UsageRequests `json:"requests,omitempty"`
	// Note is what else there is to know.
	Note string `json:"note,omitempty"`
}

// Unlooked is a source of evidence that was not looked at.
type Unlooked struct {
	Source UsageSource `json:"source"`
	// Why says why not: not asked for, no rights, not there.
	Why string `json:"why"`
	// Command is the one that would look; empty if there is none.
	Command string `json:"command,omitempty"`
	// Optional says that this alone does not change the verdict: the source is
	// looked at only when asked for, or tells of no use.
	Optional bool `json:"optional,omitempty"`
}

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Kinds of the documents about many clusters.
const (
	KindFleetReport     = "FleetReport"
	KindCanRemoveReport = "CanRemoveReport"
)

// FleetCluster is one of several clusters that were asked.
type FleetCluster struct {
	// Context is what the cluster is called here: the name of the kubeconfig's
	// context, after "FILE:" where several files of a folder have it.
	Context string `json:"context"`
	// Kubeconfig is the file, where a folder of them was given.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Server is the URL of the API server; absent if the kubeconfig leads nowhere.
	Server string `json:"server,omitempty"`
	// KubeSystemUID is the UID of the kube-system namespace; absent if it cannot be read.
	KubeSystemUID string `json:"kubeSystemUID,omitempty"`
	// SameAs is the context that leads to the same cluster and was asked instead.
	SameAs string `json:"sameAs,omitempty"`
	// Error says why the cluster could not be asked.
	Error string `json:"error,omitempty"`
	// NotFound are the CRDs that were named and that the cluster does not have.
	NotFound []string `json:"notFound,omitempty"`
	// Note is what else there is to know of the cluster.
	Note string `json:"note,omitempty"`
}

// FleetReport is what a command prints that asked several clusters.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type FleetReport struct {
	metav1.TypeMeta `json:",inline"`

	// Command is the one that was run: "status".
	Command string       `json:"command"`
	Summary FleetSummary `json:"summary"`
	// Items are the contexts, in the order they were asked for.
	Items []FleetItem `json:"items"`
}

// FleetSummary counts the clusters.
type FleetSummary struct {
	// Clusters is the number of contexts that lead to different clusters.
	Clusters int `json:"clusters"`
	// Answered and Failed are those that could and could not be asked.
	Answered int `json:"answered"`
	Failed   int `json:"failed"`
	// Same is the number of contexts that lead to a cluster that another one leads to.
	Same int `json:"same,omitempty"`
}

// FleetItem is what the command came to on one cluster: the document that it
// prints for that cluster alone.
type FleetItem struct {
	FleetCluster `json:",inline"`

	Versions   *VersionList      `json:"versions,omitempty"`
	Status     *StatusList       `json:"status,omitempty"`
	Validation *ValidationReport `json:"validation,omitempty"`
	Preflight  *PreflightReport  `json:"preflight,omitempty"`
	Usage      *UsageReport      `json:"usage,omitempty"`
}

// LeaveVerdict is whether a version may leave the manifest of a CRD.
type LeaveVerdict string

// The verdicts, of one cluster and of all.
const (
	// LeaveClear: nothing is stored at the version, it is not served, not used.
	LeaveClear LeaveVerdict = "clear"
	// LeaveBlocked: something stands in the way.
	LeaveBlocked LeaveVerdict = "blocked"
	// LeaveNotConcerned: the cluster does not have the CRD, or no longer the version.
	LeaveNotConcerned LeaveVerdict = "not concerned"
	// LeaveUnknown: the cluster could not be asked.
	LeaveUnknown LeaveVerdict = "unknown"
)

// StoredProof is how much is known of whether objects are stored at a version.
type StoredProof string

// The proofs.
const (
	// ProofVerified: kubectl crdver took the version off status.storedVersions, which
	// it does after a complete verify pass only.
	ProofVerified StoredProof = "verified"
	// ProofNoObjects: there are no objects at all.
	ProofNoObjects StoredProof = "no objects"
	// ProofClaimed: status.storedVersions does not list the version, and nothing
	// speaks against it.
	ProofClaimed StoredProof = "claimed"
	// ProofUntrusted: status.storedVersions does not list the version, and cannot be
	// trusted.
	ProofUntrusted StoredProof = "untrusted"
	// ProofListed: status.storedVersions lists the version.
	ProofListed StoredProof = "listed"
	// ProofMet: objects were met that are stored at the version and cannot be read.
	ProofMet StoredProof = "met"
)

// CanRemoveReport is what `kubectl crdver can-remove` prints.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CanRemoveReport struct {
	metav1.TypeMeta `json:",inline"`

	// Verdict is clear only if no cluster is blocked or unknown.
	Verdict LeaveVerdict `json:"verdict"`
	// Why is the reason in a sentence.
	Why     string           `json:"why"`
	Summary CanRemoveSummary `json:"summary"`
	// Clusters are the contexts that were asked, in order.
	Clusters []FleetCluster `json:"clusters"`
	// Items are the versions, by cluster, CRD and priority.
	Items []CanRemoveItem `json:"items"`
}

// CanRemoveSummary counts the clusters, each by the worst of its verdicts.
type CanRemoveSummary struct {
	Clusters     int `json:"clusters"`
	Clear        int `json:"clear"`
	Blocked      int `json:"blocked"`
	NotConcerned int `json:"notConcerned"`
	Unknown      int `json:"unknown"`
}

// CanRemoveItem is one version of a CRD on one cluster.
type CanRemoveItem struct {
	// Context is the cluster, as in Clusters.
	Context string `json:"context"`
	// CRD is the name of the CRD (plural.group).
	CRD     string       `json:"crd"`
	Version string       `json:"version"`
	Verdict LeaveVerdict `json:"verdict"`
	// Why says why the cluster is not concerned.
	Why string `json:"why,omitempty"`
	// Served and Storage are the version's flags; absent where there is no such version.
	Served  *bool `json:"served,omitempty"`
	Storage *bool `json:"storage,omitempty"`
	// Stored says whether objects are, or may be, stored at the version; absent where
	// there is no such CRD. Proof is how much is known of it.
	Stored *bool       `json:"stored,omitempty"`
	Proof  StoredProof `json:"proof,omitempty"`
	// Objects is the number of objects of the CRD; absent if it is unknown.
	Objects *int64 `json:"objects,omitempty"`
	// Usage is the verdict of "usage"; absent if it was not looked for. UsageWhy is
	// its reason.
	Usage    UsageVerdict `json:"usage,omitempty"`
	UsageWhy string       `json:"usageWhy,omitempty"`
	// Blockers are what stands in the way, each with what resolves it.
	Blockers []Blocker `json:"blockers,omitempty"`
}

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// VersionList is what `kubectl crdver sort` prints.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type VersionList struct {
	metav1.TypeMeta `json:",inline"`

	// Items are the versions, CRD by CRD, highest priority first within a CRD.
	Items []Version `json:"items"`
}

// Version is one version of a CRD, or a bare version name.
type Version struct {
	// CRD is the name of the CRD (plural.group), empty for a bare name.
	CRD string `json:"crd,omitempty"`
	// Group is the API group, empty for a bare name.
	Group string `json:"group,omitempty"`
	// Kind is the kind, empty for a bare name.
	Kind string `json:"kind,omitempty"`
	// Name is the version's name, "v1beta1".
	Name string `json:"name"`
	// Priority is the version's place in the order of the API server, 1 is the highest.
	Priority int `json:"priority"`
	// Stability is GA, beta, alpha or non-conforming.
	Stability string `json:"stability"`
	// Served, Storage, Stored and Deprecated are absent for a bare name. Stored
	// is absent for a manifest too: stored versions are known on a cluster only.
	Served     *bool `json:"served,omitempty"`
	Storage    *bool `json:"storage,omitempty"`
	Stored     *bool `json:"stored,omitempty"`
	Deprecated *bool `json:"deprecated,omitempty"`
	// KubectlDefault says that kubectl uses this version when none is named.
	KubectlDefault bool `json:"kubectlDefault"`
	// GroupPriority and AggregatedPriority are the version's place among the
	// versions of the CRD in /apis/GROUP and in the aggregated discovery document
	// of the server; absent where it is not listed or discovery was not asked.
	GroupPriority      int `json:"groupPriority,omitempty"`
	AggregatedPriority int `json:"aggregatedPriority,omitempty"`
	// DiscoveryProblem says how discovery differs from the CRD, or why it could
	// not be read; absent if it agrees.
	DiscoveryProblem string `json:"discoveryProblem,omitempty"`
	// TiesWith names another version of the CRD with the same priority
	// ("v1" and "v01"): the API server's own documents then disagree.
	TiesWith string `json:"tiesWith,omitempty"`
	// Why says which rule put this version before the next one.
	Why string `json:"why,omitempty"`
	// Origin is where the CRD was read from: "file.yaml:12", "-" or the context.
	Origin string `json:"origin,omitempty"`
}

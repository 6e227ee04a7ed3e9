package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// StatusList is what `kubectl crdver status` prints.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type StatusList struct {
	metav1.TypeMeta `json:",inline"`

	// Items are the CRDs, by name.
	Items []CRDStatus `json:"items"`
}

// CRDStatus is where one CRD is in the life of its versions.
type CRDStatus struct {
	// Name is the CRD's name, plural.group.
	Name            string `json:"name"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Generation      int64  `json:"generation,omitempty"`
	Group           string `json:"group"`
	Kind            string `json:"kind"`
	Plural          string `json:"plural"`
	// Scope is Namespaced or Cluster.
	Scope string `json:"scope"`
	// Origin is where the CRD was read from: "file.yaml:12", "-" or "cluster".
	Origin string `json:"origin,omitempty"`
	// Established says whether the server serves the CRD; absent for a manifest.
	Established *bool `json:"established,omitempty"`
	// Versions are the entries of spec.versions.
	Versions []VersionStatus `json:"versions"`
	// Served, Deprecated are names, highest priority first.
	Served     []string `json:"served"`
	Deprecated []string `json:"deprecated"`
	// StorageVersion is the version with storage: true.
	StorageVersion string `json:"storageVersion"`
	// StoredVersions is status.storedVersions as the server lists it; absent for a manifest.
	StoredVersions []string `json:"storedVersions,omitempty"`
	// StoredVersionsTrust says whether StoredVersions can be believed; absent for a manifest.
	StoredVersionsTrust *Trust `json:"storedVersionsTrust,omitempty"`
	// KubectlDefault is the highest-priority served version.
	KubectlDefault string `json:"kubectlDefault,omitempty"`
	// Discovery is what the server's own discovery says; absent if it was not asked.
	Discovery *Discovery `json:"discovery,omitempty"`
	// ConversionStrategy is None or Webhook.
	ConversionStrategy string `json:"conversionStrategy"`
	// Objects is the number of objects; absent if it is unknown.
	Objects *int64 `json:"objects,omitempty"`
	// ObjectsError says why the number of objects is unknown.
	ObjectsError string `json:"objectsError,omitempty"`
	// Managers are the tools that appear to own the CRD, with the evidence.
	Managers []Manager `json:"managers,omitempty"`
	// Notes are things to know that need no command.
	Notes []string `json:"notes,omitempty"`
	// Next is what to do next; absent if nothing is left to do.
	Next *Next `json:"next,omitempty"`
}

// VersionStatus is one version's place in the life of a version.
type VersionStatus struct {
	Name               string `json:"name"`
	Priority           int    `json:"priority"`
	Stability          string `json:"stability"`
	Served             bool   `json:"served"`
	Storage            bool   `json:"storage"`
	Stored             bool   `json:"stored"`
	Deprecated         bool   `json:"deprecated"`
	DeprecationWarning string `json:"deprecationWarning,omitempty"`
	// State is the version's state in the life of a version: "storage",
	// "served, stored", "served", "deprecated, stored", "deprecated",
	// "unserved, stored" or "unserved".
	State string `json:"state"`
}

// Trust is the verdict on status.storedVersions.
type Trust struct {
	// Trusted is false when something is known that may have removed an entry
	// while objects were still persisted at it.
	Trusted bool `json:"trusted"`
	// Reasons say why, each with its source.
	Reasons []string `json:"reasons"`
}

// Discovery is what the server says of a CRD's group.
type Discovery struct {
	// Group is the order of the versions in /apis/GROUP, of this CRD only.
	Group []string `json:"group,omitempty"`
	// Aggregated is the order in the aggregated discovery document.
	Aggregated []string `json:"aggregated,omitempty"`
	// Agrees says that the documents and the CRD name the same default.
	Agrees bool `json:"agrees"`
	// Problem says what differs, or why discovery could not be read.
	Problem string `json:"problem,omitempty"`
}

// Manager is a tool that appears to own the CRD.
type Manager struct {
	// Name is Helm, Argo CD, Flux, OLM, addon-manager, or the name of a field manager or owner.
	Name string `json:"name"`
	// Instance is the release, application or kustomization, if known.
	Instance string `json:"instance,omitempty"`
	// Evidence is the label, annotation, owner reference or managedFields entry.
	Evidence string `json:"evidence"`
	// Reverts says that the tool is known to put its own manifest back.
	Reverts bool `json:"reverts"`
}

// Next is a command, ready to paste, and the reason for it.
type Next struct {
	Command string `json:"command"`
	Why     string `json:"why"`
}

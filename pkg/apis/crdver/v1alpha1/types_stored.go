package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindStoredReport is what `kubectl crdver stored` prints.
const KindStoredReport = "StoredReport"

// StoredState says what is right or wrong with objects that are persisted at a version.
type StoredState string

// The states.
const (
	// StoredCurrent is the storage version.
	StoredCurrent StoredState = "current"
	// StoredListed is another version, which status.storedVersions lists.
	StoredListed StoredState = "listed"
	// StoredUnlisted is a version that status.storedVersions does not list: the API
	// server lets anybody remove it from spec.versions.
	StoredUnlisted StoredState = "unlisted"
	// StoredUnreadable is a version that spec.versions does not have: the objects
	// cannot be read, listed or deleted until it is added again.
	StoredUnreadable StoredState = "unreadable"
	// StoredEncrypted is unknown: the objects are encrypted at rest.
	StoredEncrypted StoredState = "encrypted"
	// StoredUndecodable is unknown: the values are not what an API server writes, or
	// say that they are of another group.
	StoredUndecodable StoredState = "undecodable"
	// StoredWithoutCRD is a version of a resource that etcd has no CRD of, or none that
	// could be read.
	StoredWithoutCRD StoredState = "without-crd"
)

// StoredReport is what `kubectl crdver stored` prints.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type StoredReport struct {
	metav1.TypeMeta `json:",inline"`

	// Etcd is what was read.
	Etcd EtcdSource `json:"etcd"`
	// At is the version whose objects are listed; absent if none was asked for.
	At string `json:"at,omitempty"`
	// Summary counts the objects of all items.
	Summary StoredSummary `json:"summary"`
	// Items are the CRDs, by name or in the order in which they were named.
	Items []StoredCRD `json:"items"`
	// UnreadableCRDs are those of the items whose CRD is in etcd and could not be read,
	// with the reason: which version is right for their objects is not known.
	UnreadableCRDs []string `json:"unreadableCRDs,omitempty"`
}

// EtcdSource is an etcd, or a snapshot of one.
type EtcdSource struct {
	// Snapshot is the file; absent for an etcd that runs.
	Snapshot string `json:"snapshot,omitempty"`
	// Checksum is "verified", "none" where the file has none, or "skipped"; absent
	// for an etcd that runs.
	Checksum string `json:"checksum,omitempty"`
	// Endpoints are those of an etcd that runs.
	Endpoints []string `json:"endpoints,omitempty"`
	// Prefix is what the keys begin with.
	Prefix string `json:"prefix"`
	// Revision is that of the snapshot, or the last one that was read at.
	Revision int64 `json:"revision"`
}

// StoredSummary counts objects by the state of the version that they are persisted at.
type StoredSummary struct {
	CRDs        int   `json:"crds"`
	Objects     int64 `json:"objects"`
	Current     int64 `json:"current"`
	Listed      int64 `json:"listed"`
	Unlisted    int64 `json:"unlisted"`
	Unreadable  int64 `json:"unreadable"`
	Encrypted   int64 `json:"encrypted"`
	Undecodable int64 `json:"undecodable"`
	WithoutCRD  int64 `json:"withoutCRD"`
}

// StoredCRD is what etcd holds of the objects of one CRD.
type StoredCRD struct {
	// Name is the CRD's name, plural.group.
	Name   string `json:"name"`
	Group  string `json:"group"`
	Plural string `json:"plural"`
	// UID, Kind, Scope, Versions, StorageVersion and StoredVersions are what the CRD
	// says that is in the same etcd; absent if there is none.
	UID            string   `json:"uid,omitempty"`
	Kind           string   `json:"kind,omitempty"`
	Scope          string   `json:"scope,omitempty"`
	Versions       []string `json:"versions,omitempty"`
	StorageVersion string   `json:"storageVersion,omitempty"`
	StoredVersions []string `json:"storedVersions,omitempty"`
	// Revision is the one of etcd that the objects were counted at.
	Revision int64 `json:"revision"`
	// Objects is the number of all objects.
	Objects int64 `json:"objects"`
	// Stored counts them by version, highest priority first, then those whose
	// version is unknown. A version that status.storedVersions lists is there even
	// if no object is persisted at it.
	Stored []StoredCount `json:"stored"`
	// Namespaces counts them by namespace; absent if that was not asked for.
	Namespaces []StoredNamespace `json:"namespaces,omitempty"`
	// Found are the objects at the version that was asked for.
	Found []StoredObject `json:"found,omitempty"`
}

// StoredCount counts objects that are persisted at one version.
type StoredCount struct {
	// Version is absent where it is unknown.
	Version string `json:"version,omitempty"`
	// Encrypted is the provider of objects that are encrypted at rest.
	Encrypted string `json:"encrypted,omitempty"`
	// Undecodable is set for values that are not what an API server writes for the CRD.
	Undecodable bool        `json:"undecodable,omitempty"`
	Objects     int64       `json:"objects"`
	State       StoredState `json:"state"`
}

// StoredNamespace counts the objects of one namespace.
type StoredNamespace struct {
	// Namespace is empty for cluster-scoped objects.
	Namespace string        `json:"namespace"`
	Stored    []StoredCount `json:"stored"`
}

// StoredObject is one object.
type StoredObject struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

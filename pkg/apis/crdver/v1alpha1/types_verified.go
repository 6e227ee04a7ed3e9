package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// VerifiedFormat is the format of [Verified] that this version writes and reads.
const VerifiedFormat = 1

// Verified is the value of the annotation crdver.dev/verified of a CRD: every object
// was seen to be persisted at its storage version, while status.storedVersions
// listed that one alone. It is written where nothing was left to trim, so that no
// other trace of the proof would stay.
type Verified struct {
	Format int `json:"format"`
	// UID is that of the CRD: the annotation of another one may have been copied.
	UID            string `json:"uid"`
	StorageVersion string `json:"storageVersion"`
	// Generation is the CRD's. With the same one, the spec is the same.
	Generation int64 `json:"generation"`
	// At is the time of the API server.
	At metav1.Time `json:"at"`
	// By is who ran the command, "alice@host, process 4242".
	By string `json:"by"`
	// Manager is the field manager that wrote the annotation: one that another
	// manager has changed is not believed.
	Manager string `json:"manager"`
	// ListWriters are the entries of managedFields that may stand for a removal from
	// status.storedVersions, as they were then. With the same ones, nobody has
	// changed the list since.
	ListWriters []ListWriter `json:"listWriters,omitempty"`
}

// ListWriter is an entry of managedFields.
type ListWriter struct {
	Manager string      `json:"manager"`
	At      metav1.Time `json:"at"`
}

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Hold is the value of the annotation crdver.dev/migration of a CRD, JSON on one
// line: who rewrites its objects, and how far that is. It is written when a plan
// that rewrites objects begins, renewed now and then, and removed when the plan is
// done. Without a holder it is what a run that ended early left for the next one.
type Hold struct {
	// ID is made up anew for each run. Empty where nobody holds the CRD.
	ID string `json:"id,omitempty"`
	// Holder is who it is, for people: "alice@host, process 4242".
	Holder string `json:"holder,omitempty"`
	// Process tells the same machine whether the process is still there.
	Process *HoldProcess `json:"process,omitempty"`
	// Command is what is being done: "promote v1".
	Command string `json:"command,omitempty"`
	// StartedAt and RenewedAt are by the clock of the holder.
	StartedAt metav1.Time `json:"startedAt"`
	RenewedAt metav1.Time `json:"renewedAt"`
	// TTLSeconds is how long it may go without being renewed before another run
	// may take over. Nobody compares clocks for that: whoever wants to take over
	// watches it for as long.
	TTLSeconds int64 `json:"ttlSeconds"`
	// Progress is absent until the migration itself begins.
	Progress *HoldProgress `json:"progress,omitempty"`
}

// HoldProcess names a process on a machine.
type HoldProcess struct {
	// Machine stands for the machine since it was started, and for the space that
	// its process numbers are from.
	Machine string `json:"machine"`
	PID     int    `json:"pid"`
	// Start tells it from a later process with the same number.
	Start string `json:"start,omitempty"`
}

// HoldProgress is how far a migration is. It counts only for a CRD with the same
// generation, storage version and stored versions.
type HoldProgress struct {
	Generation     int64    `json:"generation"`
	StorageVersion string   `json:"storageVersion"`
	StoredVersions []string `json:"storedVersions"`
	// Endpoint is the version that objects are rewritten through.
	Endpoint string `json:"endpoint"`
	// ThroughNamespace and ThroughName are the object up to which, in the order of
	// the server's list, all were rewritten.
	ThroughNamespace string `json:"throughNamespace,omitempty"`
	ThroughName      string `json:"throughName,omitempty"`
	// Done and Total count objects.
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
}

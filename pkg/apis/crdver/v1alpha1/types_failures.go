package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Party is who refused a write, or what it failed at.
type Party string

// The parties.
const (
	// PartySchema is the validation against the schema of a version.
	PartySchema Party = "schema"
	// PartyWebhook is an admission webhook.
	PartyWebhook Party = "webhook"
	// PartyPolicy is a ValidatingAdmissionPolicy or a MutatingAdmissionPolicy.
	PartyPolicy Party = "policy"
	// PartyAdmission is another admission plugin of the server.
	PartyAdmission Party = "admission"
	// PartyConversion is the conversion between two versions.
	PartyConversion Party = "conversion"
	// PartyQuota is a ResourceQuota.
	PartyQuota Party = "quota"
	// PartySize is a limit on the size of a request or an object.
	PartySize Party = "size"
	// PartyRBAC is the authorization: the caller may not do it.
	PartyRBAC Party = "rbac"
)

// The outcomes of an ObjectFailure.
const (
	// FailureRefused means that a known party does not let the object be written:
	// sending it again changes nothing until that party changes its mind.
	FailureRefused = "refused"
	// FailureFailed is everything else.
	FailureFailed = "failed"
)

// ObjectFailure is an object that could not be rewritten.
type ObjectFailure struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	// Outcome is refused or failed.
	Outcome string `json:"outcome,omitempty"`
	// Reason is the kind of failure: Invalid, Forbidden, AdmissionDenied,
	// ConversionFailed, TooLarge, Unavailable, Other.
	Reason string `json:"reason"`
	// By is who refused, or what it failed at; absent if the server did not say.
	By Party `json:"by,omitempty"`
	// ByName is the name of the webhook, the policy or the quota.
	ByName string `json:"byName,omitempty"`
	// Message is the server's own, escaped and cut.
	Message string `json:"message"`
}

// FailureGroup is the objects that could not be rewritten for one reason.
type FailureGroup struct {
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
	By      Party  `json:"by,omitempty"`
	ByName  string `json:"byName,omitempty"`
	// Count is the number of objects.
	Count int64 `json:"count"`
	// Examples are the first few objects by name, namespace/name.
	Examples []string `json:"examples"`
	// Message is what the server said of the first example.
	Message string `json:"message"`
	// Resolve is what to do about it.
	Resolve string `json:"resolve"`
}

// FailureReport is the first line of a file of --report for a CRD: what the
// ObjectReports that follow are about.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type FailureReport struct {
	metav1.TypeMeta `json:",inline"`

	// CRD is the name of the CRD, UID its UID: objects of another CRD of that
	// name are not the same objects.
	CRD            string `json:"crd"`
	UID            string `json:"uid"`
	Verb           Verb   `json:"verb"`
	StorageVersion string `json:"storageVersion"`
	// StartedAt is when the run began.
	StartedAt metav1.Time `json:"startedAt"`
}

// ObjectReport is a line of a file of --report: an object that was refused or
// failed when it was to be rewritten. An object may have failed at one time and
// been rewritten later in the same run.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ObjectReport struct {
	metav1.TypeMeta `json:",inline"`

	CRD string `json:"crd"`
	// Step is the step of the plan.
	Step string      `json:"step"`
	Time metav1.Time `json:"time"`

	ObjectFailure `json:",inline"`
}

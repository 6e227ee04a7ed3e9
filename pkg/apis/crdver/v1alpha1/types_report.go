package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Outcome is how the execution of a plan, or of a step, ended.
type Outcome string

// The outcomes.
const (
	// OutcomeDone means that everything was done and verified.
	OutcomeDone Outcome = "done"
	// OutcomeUnchanged means that there was nothing to do.
	OutcomeUnchanged Outcome = "unchanged"
	// OutcomePartial means that some objects failed; what is left is listed.
	OutcomePartial Outcome = "partial"
	// OutcomeRefused means that a precondition or a gate did not hold.
	OutcomeRefused Outcome = "refused"
	// OutcomeFailed means an error.
	OutcomeFailed Outcome = "failed"
	// OutcomeInterrupted means that the run was interrupted or timed out.
	OutcomeInterrupted Outcome = "interrupted"
	// OutcomeNotRun means that an earlier step ended the run.
	OutcomeNotRun Outcome = "not-run"
)

// Report is what came of a plan.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Report struct {
	metav1.TypeMeta `json:",inline"`

	Target  Target  `json:"target"`
	Intent  Intent  `json:"intent"`
	Outcome Outcome `json:"outcome"`
	// Message says why, if the outcome is not done or unchanged.
	Message    string       `json:"message,omitempty"`
	StartedAt  metav1.Time  `json:"startedAt"`
	FinishedAt metav1.Time  `json:"finishedAt"`
	Steps      []StepReport `json:"steps"`
	// Evidence is what was proven about the objects; absent if nothing was.
	Evidence *Evidence `json:"evidence,omitempty"`
	// StorageVersion and StoredVersions are what the CRD says at the end.
	StorageVersion string   `json:"storageVersion"`
	StoredVersions []string `json:"storedVersions"`
	// Brownout is what was seen during a brownout; absent if there was none.
	Brownout *BrownoutReport `json:"brownout,omitempty"`
	// After is the time from which on Resume can go on; absent if that is now.
	After *metav1.Time `json:"after,omitempty"`
	// Resume is the command that continues; empty if nothing is left.
	Resume string `json:"resume,omitempty"`
	// Back is the command that brings the clients of the version back; empty where
	// they lost nothing.
	Back string `json:"back,omitempty"`
}

// ReportList is the reports of a command that covers several CRDs.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ReportList struct {
	metav1.TypeMeta `json:",inline"`

	Items []Report `json:"items"`
}

// StepReport is what came of a step.
type StepReport struct {
	ID         string       `json:"id"`
	Outcome    Outcome      `json:"outcome"`
	Message    string       `json:"message,omitempty"`
	StartedAt  *metav1.Time `json:"startedAt,omitempty"`
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// Objects counts what happened to objects; absent for steps without objects.
	Objects *ObjectCounts `json:"objects,omitempty"`
	// FailureGroups are the refused and failed objects by what went wrong, the
	// largest group first. They count all of them.
	FailureGroups []FailureGroup `json:"failureGroups,omitempty"`
	// Failures are the objects that were refused or failed, at most MaxFailures.
	Failures []ObjectFailure `json:"failures,omitempty"`
}

// MaxFailures is the number of refused and failed objects that a report lists by
// name; the rest is counted.
const MaxFailures = 1000

// ObjectCounts counts the outcomes of a pass over the objects of a resource.
type ObjectCounts struct {
	// Listed is the number of objects seen; the others add up to it.
	Listed int64 `json:"listed"`
	// Rewritten objects had been persisted in another form.
	Rewritten int64 `json:"rewritten"`
	// Current objects were already persisted at the storage version.
	Current int64 `json:"current"`
	// Changed objects were written by somebody else meanwhile, which persists
	// them at the storage version.
	Changed int64 `json:"changed"`
	// Deleted objects were deleted meanwhile.
	Deleted int64 `json:"deleted"`
	// Refused objects could not be rewritten because a known party, such as a
	// policy, does not let anybody, or the caller, write them.
	Refused int64 `json:"refused"`
	// Failed objects could not be rewritten for any other reason.
	Failed int64 `json:"failed"`
	// Retries is the number of requests that were sent again.
	Retries int64 `json:"retries"`
	// ManagersLost is the number of rewritten objects whose metadata.managedFields
	// lost a manager by it.
	ManagersLost int64 `json:"managersLost,omitempty"`
}

// Evidence is the proof that no object is persisted at another version than
// the storage version, or what is missing of it.
type Evidence struct {
	// Complete says that a pass over all objects found each of them current.
	Complete bool `json:"complete"`
	// StorageVersion and Generation are the CRD's when the pass began, and at its end.
	StorageVersion string `json:"storageVersion"`
	Generation     int64  `json:"generation"`
	// Passes is the number of passes, the last of which is Objects.
	Passes  int          `json:"passes"`
	Objects ObjectCounts `json:"objects"`
	// ManagedFields is the number of objects whose managedFields still name the
	// retired version; absent if it was not looked at.
	ManagedFields *int64 `json:"managedFields,omitempty"`
	// At is when the pass ended.
	At metav1.Time `json:"at"`
}

// EventType is what an event tells.
type EventType string

// The types of events.
const (
	EventPlanStarted EventType = "PlanStarted"
	EventStepStarted EventType = "StepStarted"
	EventProgress    EventType = "Progress"
	EventWarning     EventType = "Warning"
	// EventWaiting tells now and then what a step waits for.
	EventWaiting      EventType = "Waiting"
	EventStepFinished EventType = "StepFinished"
	EventPlanFinished EventType = "PlanFinished"
	// EventStatus was asked for with a signal: it says where the run is, whatever
	// happened last.
	EventStatus EventType = "Status"
)

// Event is one thing that happened while a plan was executed.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Event struct {
	metav1.TypeMeta `json:",inline"`

	Type EventType   `json:"type"`
	Time metav1.Time `json:"time"`
	CRD  string      `json:"crd"`
	// Step is the step's id, and StepNumber its place from 1 to StepTotal.
	Step       string `json:"step,omitempty"`
	StepNumber int    `json:"stepNumber,omitempty"`
	StepTotal  int    `json:"stepTotal,omitempty"`
	// Title is the step's title.
	Title   string  `json:"title,omitempty"`
	Outcome Outcome `json:"outcome,omitempty"`
	Message string  `json:"message,omitempty"`
	// Progress is set in Progress and StepFinished events of steps with objects,
	// and in Status events during such a step.
	Progress *Progress `json:"progress,omitempty"`
}

// Progress is how far a pass over the objects is.
type Progress struct {
	Counts ObjectCounts `json:"counts"`
	// Total is the best guess at the number of objects, corrected as pages come.
	Total int64 `json:"total"`
	// InFlight is the number of requests on the wire.
	InFlight int `json:"inFlight"`
	// Limit is how many may be by now; it grows and shrinks with what the server
	// can do. Absent where nothing is limited.
	Limit int `json:"limit,omitempty"`
	// Rate is the number of objects per second, smoothed; absent if it is not
	// known yet.
	Rate float64 `json:"rate,omitempty"`
	// ETASeconds is how long the rest of the pass takes at that rate; absent if
	// it is not known.
	ETASeconds int64 `json:"etaSeconds,omitempty"`
	// Pass is the number of the pass, from 1.
	Pass int `json:"pass"`
}

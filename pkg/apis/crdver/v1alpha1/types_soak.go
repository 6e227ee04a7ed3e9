package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SoakPhase is what a soak follows.
type SoakPhase string

// The phases.
const (
	// SoakDeprecated comes between deprecating and unserving.
	SoakDeprecated SoakPhase = "deprecated"
	// SoakUnserved comes between unserving and removing.
	SoakUnserved SoakPhase = "unserved"
)

// Soak is the value of the annotation crdver.dev/soak of a CRD: since when a
// retirement waits, and until when. The times are those of the API server.
type Soak struct {
	Version string      `json:"version"`
	Phase   SoakPhase   `json:"phase"`
	Since   metav1.Time `json:"since"`
	Until   metav1.Time `json:"until"`
	// By is who began it, "alice@host, process 4242".
	By string `json:"by"`
	// Manager is the field manager that wrote the annotation: one that another
	// manager has changed is not believed.
	Manager string `json:"manager"`
}

// SoakStep is what a step waits for.
type SoakStep struct {
	Phase SoakPhase `json:"phase"`
	// Duration is how long it takes.
	Duration metav1.Duration `json:"duration"`
	// Since and Until are set while it is under way.
	Since *metav1.Time `json:"since,omitempty"`
	Until *metav1.Time `json:"until,omitempty"`
	// State is "3h0m0s left", "starts with this step" or "starts over: ...".
	State string `json:"state"`
}

// Brownout is the value of the annotation crdver.dev/brownout of a CRD: while it
// is there, a version is not served for a time, or was left so.
type Brownout struct {
	Version string      `json:"version"`
	Started metav1.Time `json:"started"`
	// Until is when the version is served again; after that the brownout is overdue.
	Until metav1.Time `json:"until"`
	By    string      `json:"by"`
	// Process is the process, for others on the same machine.
	Process *HoldProcess `json:"process,omitempty"`
	// ID tells one brownout from another.
	ID string `json:"id"`
}

// BrownoutIntent says for how long, and how often.
type BrownoutIntent struct {
	For metav1.Duration `json:"for"`
	// Repeat is how many times; Every is the time from one start to the next.
	Repeat int              `json:"repeat"`
	Every  *metav1.Duration `json:"every,omitempty"`
}

// BrownoutReport is what was seen during a brownout.
type BrownoutReport struct {
	// Rounds are the times that the version was not served.
	Rounds []BrownoutRound `json:"rounds"`
	// Served says that the version was seen to be served again at the end.
	Served bool `json:"served"`
	// Gone says that somebody deleted the CRD meanwhile.
	Gone bool `json:"gone,omitempty"`
	// Clients are the requests that were made at the version meanwhile, from
	// audit logs.
	Clients []UsageEvidence `json:"clients,omitempty"`
	// Affected are workloads that became unready or were restarted, warnings that name
	// the API group, and children whose ownerReferences name the version. That they came at the same time is no proof of the cause.
	Affected []BrownoutEffect `json:"affected,omitempty"`
	// Watched is what was looked at, NotWatched what was not, with the reason.
	Watched    []string `json:"watched"`
	NotWatched []string `json:"notWatched,omitempty"`
}

// BrownoutRound is one time that a version was not served.
type BrownoutRound struct {
	Started metav1.Time `json:"started"`
	Ended   metav1.Time `json:"ended"`
	// Planned is when it was to end.
	Planned metav1.Time `json:"planned"`
}

// BrownoutEffect is something that happened during a brownout.
type BrownoutEffect struct {
	// Resource is "deployments.apps", "pods" or "events", or that of children.
	Resource string `json:"resource"`
	// Name is namespace/name; that of what an event is about.
	Name string `json:"name"`
	// What is "3 of 3 ready before, 1 during the brownout".
	What string `json:"what"`
}

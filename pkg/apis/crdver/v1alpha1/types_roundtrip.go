package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Kinds of the documents about round trips.
const (
	KindRoundTripReport     = "RoundTripReport"
	KindAcceptedDifferences = "AcceptedDifferences"
)

// What a difference is.
const (
	// ChangeLost is a field that is present before and absent after.
	ChangeLost = "lost"
	// ChangeChanged is a field that is there before and after, with another value.
	ChangeChanged = "changed"
	// ChangeAppeared is a field that is absent before and present after.
	ChangeAppeared = "appeared"
)

// Stage is what made a difference.
type Stage string

// The stages, in the order in which an object passes them.
const (
	// StageConversion is the webhook.
	StageConversion Stage = "conversion"
	// StagePruning is a schema that does not know a field.
	StagePruning Stage = "pruning"
	// StageDefaulting is the default of a schema.
	StageDefaulting Stage = "defaulting"
	// StageServer is what the server does and the replay does not: an admission
	// webhook, or a conversion webhook that answers the server another way.
	StageServer Stage = "server"
	// StageUnknown is what the server shows where nothing could be replayed.
	StageUnknown Stage = "unknown"
)

// RoundTripReport is what `kubectl crdver roundtrip` prints.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type RoundTripReport struct {
	metav1.TypeMeta `json:",inline"`

	// Summary counts what is in the items.
	Summary RoundTripSummary `json:"summary"`
	// Items are the CRDs, by name, or in the order of the manifests.
	Items []RoundTrip `json:"items"`
}

// RoundTripSummary counts the differences of all pairs of versions. What was
// accepted is counted in Accepted alone.
type RoundTripSummary struct {
	CRDs int `json:"crds"`
	// Objects is how many objects were taken, Generated how many samples.
	Objects   int64 `json:"objects"`
	Generated int64 `json:"generated"`
	Lost      int   `json:"lost"`
	Changed   int   `json:"changed"`
	Appeared  int   `json:"appeared"`
	Accepted  int   `json:"accepted"`
	// Failed counts the reasons for which objects could not make the round trip.
	Failed int `json:"failed"`
	// Open counts the questions that stay open.
	Open int `json:"open"`
}

// RoundTrip is what round trips do to the objects of one CRD.
type RoundTrip struct {
	// CRD is the name of the CRD (plural.group), Origin where it was read from.
	CRD    string `json:"crd"`
	Origin string `json:"origin"`
	// Strategy is None or Webhook. StorageVersion is what every conversion
	// passes through: an object is converted to it when it is written, and from
	// it when it is read.
	Strategy       string `json:"strategy"`
	StorageVersion string `json:"storageVersion"`
	// Objects is how many objects were taken of Total; Complete says all were.
	Objects  int64 `json:"objects"`
	Total    int64 `json:"total"`
	Complete bool  `json:"complete"`
	// Generated is how many samples were made up from the schemas.
	Generated int64 `json:"generated,omitempty"`
	// Pairs are the ordered pairs of versions, highest priority first.
	Pairs []RoundTripPair `json:"pairs"`
	// Edges are the ways between the storage version and each other version,
	// for CRDs of three and more versions.
	Edges []RoundTripEdge `json:"edges,omitempty"`
	// Open are the questions that could not be answered, and why.
	Open []string `json:"open,omitempty"`
}

// RoundTripPair is the way from a version to another one and back.
type RoundTripPair struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Objects is how many objects made the round trip, samples left aside.
	Objects int64 `json:"objects"`
	// Replayed says that each stage was replayed. Otherwise there is only what the
	// server shows by itself, and no difference means nothing.
	Replayed bool `json:"replayed"`
	// Differences are those of the object, Metadata those of its labels,
	// annotations and other metadata; both by path.
	Differences []RoundTripDifference `json:"differences,omitempty"`
	Metadata    []RoundTripDifference `json:"metadata,omitempty"`
	// Failures are the reasons for which objects did not make the round trip.
	Failures []RoundTripFailure `json:"failures,omitempty"`
}

// RoundTripDifference is a field that is not the same after a round trip.
type RoundTripDifference struct {
	// Path is the field at the version From, with "[*]" for list items and map
	// keys. A default that appears at To, and does not come back, is told as it is there.
	Path string `json:"path"`
	// Change is lost, changed or appeared.
	Change string `json:"change"`
	// Stage is what did it.
	Stage Stage `json:"stage"`
	// Version is where: the version whose schema pruned or defaulted, or the
	// other end of the conversion from or to the storage version.
	Version string `json:"version,omitempty"`
	// Objects is in how many objects, Generated in how many samples.
	Objects   int64 `json:"objects"`
	Generated int64 `json:"generated,omitempty"`
	// Examples are the first few objects.
	Examples []string `json:"examples,omitempty"`
	// Before and After are the values in the first of the objects, as JSON, if
	// they were asked for.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Accepted says that the difference is expected.
	Accepted bool `json:"accepted,omitempty"`
}

// RoundTripFailure is why objects did not make a round trip.
type RoundTripFailure struct {
	// Reason is that of ObjectFailure; Message is the server's or the webhook's,
	// without values.
	Reason    string   `json:"reason"`
	Message   string   `json:"message"`
	Objects   int64    `json:"objects"`
	Generated int64    `json:"generated,omitempty"`
	Examples  []string `json:"examples,omitempty"`
}

// RoundTripEdge is the way between the storage version and another one.
type RoundTripEdge struct {
	Version string `json:"version"`
	// Lossy says that something is lost or changed on it, in either direction.
	Lossy bool `json:"lossy"`
}

// AcceptedDifferences are the differences that are expected. `kubectl crdver
// roundtrip --accept` reads them, --write-accept writes them.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type AcceptedDifferences struct {
	metav1.TypeMeta `json:",inline"`

	Items []AcceptedDifference `json:"items"`
}

// AcceptedDifference is one difference that is expected.
type AcceptedDifference struct {
	CRD    string `json:"crd"`
	From   string `json:"from"`
	To     string `json:"to"`
	Path   string `json:"path"`
	Change string `json:"change"`
	Stage  Stage  `json:"stage"`
	// Reason is for those who read the file.
	Reason string `json:"reason,omitempty"`
}

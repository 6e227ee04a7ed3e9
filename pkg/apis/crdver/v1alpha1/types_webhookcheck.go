package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindWebhookCheckReport is what `kubectl crdver webhook-check` prints.
const KindWebhookCheckReport = "WebhookCheckReport"

// CheckResult is what one check came to.
type CheckResult string

// The results, best first.
const (
	// CheckOK is as the protocol has it.
	CheckOK CheckResult = "ok"
	// CheckSkipped was not checked; the message says why.
	CheckSkipped CheckResult = "skipped"
	// CheckWarning is what the API server puts up with, or what will hurt later.
	CheckWarning CheckResult = "warning"
	// CheckFailed breaks the protocol, makes objects unreadable, or loses data.
	CheckFailed CheckResult = "FAIL"
)

// CheckStage is a part of the examination. The stages are in this order.
type CheckStage string

// The stages.
const (
	CheckStageConfiguration CheckStage = "configuration"
	CheckStageService       CheckStage = "service"
	CheckStageTLS           CheckStage = "tls"
	CheckStageReachability  CheckStage = "reachability"
	CheckStageLatency       CheckStage = "latency"
	CheckStageProtocol      CheckStage = "protocol"
	CheckStageSemantics     CheckStage = "semantics"
)

// WebhookCheckReport is what `kubectl crdver webhook-check` prints.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type WebhookCheckReport struct {
	metav1.TypeMeta `json:",inline"`

	// Summary counts the checks of all items.
	Summary CheckSummary `json:"summary"`
	// Items are the webhooks, by the name of the CRD or in the order of the manifests.
	Items []CheckedWebhook `json:"items"`
}

// CheckSummary counts checks.
type CheckSummary struct {
	Webhooks int `json:"webhooks"`
	OK       int `json:"ok"`
	Failed   int `json:"failed"`
	Warnings int `json:"warnings"`
	Skipped  int `json:"skipped"`
}

// CheckedWebhook is the conversion webhook of one CRD.
type CheckedWebhook struct {
	// CRD is the name of the CRD (plural.group), Origin where it was read from.
	CRD    string `json:"crd"`
	Origin string `json:"origin"`
	// Webhook is its address, Via how it was called: "server" is through the API
	// server's service proxy, "direct" is from here.
	Webhook string `json:"webhook"`
	Via     string `json:"via,omitempty"`
	// Objects says what was converted.
	Objects CheckedObjects `json:"objects"`
	// Latency is that of the calls; absent if none was made.
	Latency *WebhookLatency `json:"latency,omitempty"`
	// Certificate is what the webhook presents; absent if it could not be seen.
	Certificate *WebhookCertificate `json:"certificate,omitempty"`
	// Stopped says why not all was checked; empty if all was.
	Stopped string `json:"stopped,omitempty"`
	// Checks are in the order in which they were made.
	Checks []WebhookCheck `json:"checks"`
}

// CheckedObjects are what the webhook was given to convert.
type CheckedObjects struct {
	// Source is "cluster", "files" or "schema": samples made up from the schemas.
	Source string `json:"source"`
	// RoundTrips is how many objects were converted there and back, all pairs of
	// versions together.
	RoundTrips int64 `json:"roundTrips"`
}

// WebhookLatency is how long calls took.
type WebhookLatency struct {
	// Calls is how many were measured, Failed how many of them had no good answer.
	Calls  int `json:"calls"`
	Failed int `json:"failed"`
	// P50, P99 and Max are of those that had an answer.
	P50 metav1.Duration `json:"p50"`
	P99 metav1.Duration `json:"p99"`
	Max metav1.Duration `json:"max"`
	// Limit is when the API server gives up.
	Limit metav1.Duration `json:"limit"`
}

// WebhookCertificate is what a webhook presents.
type WebhookCertificate struct {
	// Names are the DNS names and addresses that it is for.
	Names []string `json:"names"`
	// NotAfter is when it, or the first certificate of its chain, ends.
	NotAfter metav1.Time `json:"notAfter"`
	DaysLeft int         `json:"daysLeft"`
}

// WebhookCheck is one check.
type WebhookCheck struct {
	Stage CheckStage `json:"stage"`
	// Name stays the same between releases.
	Name   string      `json:"name"`
	Result CheckResult `json:"result"`
	// Message says what came back, or why it was not checked.
	Message string `json:"message"`
	// Protocol is what the API server demands.
	Protocol string `json:"protocol,omitempty"`
	// Differences are what a conversion loses, changes or adds, by path.
	Differences []FieldDifference `json:"differences,omitempty"`
}

package usage

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// auditAPI is the group of audit events; v1 and v1beta1 have the same fields.
const auditAPI = "audit.k8s.io/"

// The stages of a request in an audit log (audit.k8s.io/v1, Stage).
const (
	stageStarted  = "ResponseStarted"
	stageComplete = "ResponseComplete"
	stagePanic    = "Panic"
)

// auditEvent is what matters of an audit.k8s.io Event, or of an EventList. The
// bodies of requests and answers are skipped: they hold values.
type auditEvent struct {
	Kind             string            `json:"kind"`
	APIVersion       string            `json:"apiVersion"`
	AuditID          string            `json:"auditID"`
	Stage            string            `json:"stage"`
	RequestURI       string            `json:"requestURI"`
	Verb             string            `json:"verb"`
	User             auditUser         `json:"user"`
	ImpersonatedUser *auditUser        `json:"impersonatedUser"`
	SourceIPs        []string          `json:"sourceIPs"`
	UserAgent        string            `json:"userAgent"`
	ObjectRef        *auditObject      `json:"objectRef"`
	ResponseStatus   *auditStatus      `json:"responseStatus"`
	Received         metav1.MicroTime  `json:"requestReceivedTimestamp"`
	StageTime        metav1.MicroTime  `json:"stageTimestamp"`
	Items            []json.RawMessage `json:"items"`
}

type auditUser struct {
	Username string   `json:"username"`
	Groups   []string `json:"groups"`
}

type auditObject struct {
	Resource    string `json:"resource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	APIGroup    string `json:"apiGroup"`
	APIVersion  string `json:"apiVersion"`
	Subresource string `json:"subresource"`
}

type auditStatus struct {
	Code   int32               `json:"code"`
	Reason metav1.StatusReason `json:"reason"`
}

// isEvent tells whether a document is an audit event.
func (e *auditEvent) isEvent() bool {
	return e.Kind == "Event" && strings.HasPrefix(e.APIVersion, auditAPI)
}

// decodeEvents returns the audit events in a line: an Event, an EventList (what
// the server posts to a webhook, one per line), or one of these within a line of
// a log shipper. known is false if the line is none of these.
func decodeEvents(line []byte) (events []auditEvent, known bool) {
	return decodeNested(line, true)
}

func decodeNested(line []byte, unwrap bool) ([]auditEvent, bool) {
	// A container runtime writes time, stream and a flag before the text.
	start := bytes.IndexByte(line, '{')
	if start < 0 {
		return nil, false
	}
	line = line[start:]
	var document auditEvent
	if err := json.Unmarshal(line, &document); err != nil {
		return nil, false
	}
	switch {
	case document.isEvent():
		return []auditEvent{document}, true
	case document.Kind == "EventList" && strings.HasPrefix(document.APIVersion, auditAPI):
		return decodeList(document)
	case unwrap:
		return decodeWrapped(line)
	default:
		return nil, false
	}
}

// decodeList decodes the events of a list, which do not repeat kind and
// apiVersion.
func decodeList(list auditEvent) ([]auditEvent, bool) {
	events := make([]auditEvent, len(list.Items))
	for i, item := range list.Items {
		if err := json.Unmarshal(item, &events[i]); err != nil {
			return nil, false
		}
	}
	return events, true
}

// decodeWrapped finds the event in the record of a log shipper, under the names
// that these use for the original line, as text or as an object.
func decodeWrapped(line []byte) ([]auditEvent, bool) {
	var record map[string]json.RawMessage
	if err := json.Unmarshal(line, &record); err != nil {
		return nil, false
	}
	for _, name := range []string{"log", "message", "@message", "msg", "MESSAGE", "event", "data"} {
		inner := record[name]
		var text string
		if json.Unmarshal(inner, &text) == nil {
			inner = []byte(text)
		}
		if events, known := decodeNested(inner, false); known {
			return events, true
		}
	}
	return nil, false
}

// what returns what a request does, in the words of the evidence. An audit event
// does not tell the content type of a patch; only an apply may have the parameter
// force, and kubectl always gives it.
func (e *auditEvent) what() string {
	switch e.Verb {
	case "get", "list", "watch":
		return "read"
	case "create", "update", "delete", "deletecollection":
		return "write"
	case "patch":
		if e.parameters().Has("force") {
			return "apply"
		}
		return "write"
	default:
		return "other"
	}
}

// verb returns the verb; a client can invent one, as an HTTP method.
func (e *auditEvent) verb() string {
	what := e.what()
	if what == "other" || what == "apply" {
		return what
	}
	return e.Verb
}

func (e *auditEvent) dryRun() bool {
	return strings.Contains(e.RequestURI, "dryRun") && e.parameters().Has("dryRun")
}

func (e *auditEvent) parameters() url.Values {
	_, query, _ := strings.Cut(e.RequestURI, "?")
	values, _ := url.ParseQuery(query) // What can be read of it, is.
	return values
}

// user returns who the server took the request to be from, and who impersonated
// that user.
func (e *auditEvent) user() (user auditUser, by string) {
	if e.ImpersonatedUser == nil {
		return e.User, ""
	}
	return *e.ImpersonatedUser, e.User.Username
}

// address returns where a request came from. All but the last address are the
// word of the client.
func (e *auditEvent) address() string {
	switch n := len(e.SourceIPs); n {
	case 0:
		return ""
	case 1:
		return e.SourceIPs[0]
	default:
		return e.SourceIPs[0] + " via " + e.SourceIPs[n-1]
	}
}

func (e *auditEvent) example() string {
	if e.ObjectRef.Name == "" || e.ObjectRef.Namespace == "" {
		return e.ObjectRef.Name
	}
	return e.ObjectRef.Namespace + "/" + e.ObjectRef.Name
}

func (e *auditEvent) code() int32 {
	if e.ResponseStatus == nil {
		return 0
	}
	return e.ResponseStatus.Code
}

// missing tells whether what was asked for is not there, at a version that is: the
// server gives no reason where it does not serve the version.
func (e *auditEvent) missing() bool {
	return e.code() == http.StatusNotFound && e.ResponseStatus.Reason == metav1.StatusReasonNotFound
}

// identity tells requests apart. The header Audit-ID lets a client choose the
// ID, even the same one every time; all stages of a request have the same time of
// receipt.
func (e *auditEvent) identity() string {
	return e.AuditID + "/" + strconv.FormatInt(e.Received.UnixMicro(), 10)
}

// auditFilter finds the lines that may matter without decoding them.
type auditFilter map[string]bool

// may tells whether a line names one of the groups as an apiGroup, in JSON or in
// JSON within a JSON string.
func (f auditFilter) may(line []byte) bool {
	key := []byte("apiGroup")
	for {
		at := bytes.Index(line, key)
		if at < 0 {
			return false
		}
		line = bytes.TrimLeft(line[at+len(key):], "\\\": \t")
		end := 0
		for end < len(line) && line[end] != '"' && line[end] != '\\' && end <= 253 {
			end++
		}
		if f[string(line[:end])] {
			return true
		}
	}
}

// receivedTime reads the time of receipt from a line without decoding it. It
// takes the last one: bodies, which may have a field of that name, come before
// it, and in the texts that come after it quotes are escaped.
func receivedTime(line []byte) (time.Time, bool) {
	key := []byte(`"requestReceivedTimestamp":"`)
	var found []byte
	for {
		at := bytes.Index(line, key)
		if at < 0 {
			break
		}
		line = line[at+len(key):]
		found = line
	}
	end := bytes.IndexByte(found, '"')
	if end < 0 || end > len(time.RFC3339Nano) {
		return time.Time{}, false
	}
	received, err := time.Parse(time.RFC3339Nano, string(found[:end]))
	return received, err == nil
}

package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// Reason is the kind of failure of a request for an object.
type Reason string

// The reasons.
const (
	// ReasonInvalid means that the object breaks the schema of the version it
	// was written through. Ratcheting forgives most old faults, but not
	// `required` at the root of the schema, nor a missing list-map key (fact 12).
	ReasonInvalid Reason = "Invalid"
	// ReasonAdmissionDenied means that a webhook, a policy or another admission
	// plugin refused.
	ReasonAdmissionDenied Reason = "AdmissionDenied"
	// ReasonForbidden means that the caller may not do this (RBAC).
	ReasonForbidden Reason = "Forbidden"
	// ReasonConversionFailed means that the object could not be converted between
	// the version it is persisted at and the one of the request.
	ReasonConversionFailed Reason = "ConversionFailed"
	// ReasonTooLarge means that the object would be too large for the server or etcd.
	ReasonTooLarge Reason = "TooLarge"
	// ReasonFieldLoss means that the object was not sent at all: see [LossError].
	ReasonFieldLoss Reason = "FieldLoss"
	// ReasonUnavailable means that the server, or something it depends on, did
	// not answer or asked to come back later.
	ReasonUnavailable Reason = "Unavailable"
	// ReasonOther is everything else.
	ReasonOther Reason = "Other"
)

// LossError says that an object is not rewritten, because that would lose fields of
// it for good.
type LossError struct {
	// Version is that of the request.
	Version string
	// Paths are the fields.
	Paths []string
}

// Error names the fields, not what is in them.
func (e *LossError) Error() string {
	return fmt.Sprintf("a rewrite through %s would lose or change %s", e.Version, strings.Join(e.Paths, ", "))
}

// Failure is what an error of the API server means for the object concerned.
type Failure struct {
	Reason Reason
	// Refused says that a known party, By, does not let the object be written.
	Refused bool
	// By is who refused, or what it failed at; empty if the server did not say.
	By v1alpha1.Party
	// Name is the name of the webhook, policy or quota.
	Name string
	// Message is the server's own, with the values of fields left out, control
	// characters escaped, and cut.
	Message string
}

// Texts of the API server. It gives no other sign of these causes.
const (
	textCorrupt          = "corrupt object"
	textStorageError     = "StorageError: "
	textConversionHook   = "conversion webhook for "
	textConversionFrom   = "request to convert CR from an invalid group/version"
	textConversionTo     = "request to convert CR to an invalid group/version"
	textInitializing     = "storage is (re)initializing"
	textRequestTooLarge  = "etcdserver: request is too large"
	textMessageTooLarge  = "trying to send message larger than max"
	textEtcdUnavailable  = "etcdserver: "
	textRBAC             = `" cannot `
	textForbidden        = " is forbidden: "
	textCredentialPlugin = "getting credentials: "
)

// hintCorrupt is added to what the server calls a corrupt object (fact 15).
const hintCorrupt = " (the server calls every object that it cannot convert corrupt; it is usually intact: mend the conversion, or serve or re-add the version it is persisted at)"

// hint says what to do about what the server calls a corrupt object. A version
// that is gone is put right in one command.
func hint(message string) string {
	if !strings.Contains(message, textConversionFrom) {
		return hintCorrupt
	}
	resource := "CRD"
	if from := regexp.MustCompile(textConversionFrom + `: ([a-z0-9.-]+)/`).FindStringSubmatch(message); from != nil {
		if key := regexp.MustCompile(`Key: [^,]*/` + regexp.QuoteMeta(from[1]) + `/([^/,]+)/`).FindStringSubmatch(message); key != nil {
			resource = key[1] + "." + from[1]
		}
	}
	return " (the server calls every object that it cannot convert corrupt; it is intact: kubectl crdver rescue " + resource + ")"
}

// Explain classifies an error of a request that reads or writes an object.
func Explain(err error) Failure {
	var loss *LossError
	if errors.As(err, &loss) {
		return Failure{Reason: ReasonFieldLoss, Refused: true, By: v1alpha1.PartySchema, Message: clean(loss.Error())}
	}
	status, isStatus := statusOf(err)
	if !isStatus {
		reason := ReasonOther
		if Transient(err) {
			reason = ReasonUnavailable
		}
		return Failure{Reason: reason, Message: clean(err.Error())}
	}
	failure := classify(status, err)
	message := status.Message
	if strings.Contains(message, textCorrupt) {
		message = corruptCause(message) + hint(message)
	}
	failure.Message = clean(message)
	return failure
}

// classify looks at who speaks before it looks at the code: a webhook may refuse
// with any code, 404, 409 and 503 among them, and a policy with 403, 413 or 422.
func classify(status metav1.Status, err error) Failure {
	message := status.Message
	if refused, known := refusedByAdmission(status); known {
		return refused
	}
	if match := regexp.MustCompile(`failed calling webhook "([^"]+)"`).FindStringSubmatch(message); match != nil {
		return Failure{Reason: ReasonUnavailable, By: v1alpha1.PartyWebhook, Name: match[1]}
	}
	switch {
	// Before the texts: the message of a schema rule may say anything.
	case status.Code == http.StatusUnprocessableEntity, status.Reason == metav1.StatusReasonInvalid:
		return Failure{Reason: ReasonInvalid, Refused: true, By: v1alpha1.PartySchema}
	case containsAny(message, textConversionHook, textConversionFrom, textConversionTo, textCorrupt):
		return conversionFailed(status, err)
	case status.Code == http.StatusRequestEntityTooLarge, containsAny(message, textRequestTooLarge, textMessageTooLarge):
		return Failure{Reason: ReasonTooLarge, Refused: true, By: v1alpha1.PartySize}
	case status.Code == http.StatusUnauthorized:
		// Nobody knows what whoever it is may do.
		return Failure{Reason: ReasonForbidden}
	case status.Code == http.StatusForbidden && strings.Contains(message, textRBAC):
		return Failure{Reason: ReasonForbidden, Refused: true, By: v1alpha1.PartyRBAC}
	case status.Code == http.StatusForbidden:
		return Failure{Reason: ReasonForbidden}
	case transientStatus(status):
		return Failure{Reason: ReasonUnavailable}
	}
	return Failure{Reason: ReasonOther}
}

// denied tells whether a webhook or policy refused a request, wherever it says so
// in the message: to take an answer for a refusal that is none does no harm here,
// to take a refusal for the server's own 404 would.
func denied(message string) bool {
	for _, expression := range []string{
		`admission webhook "([^"]+)" denied the request`,
		`admission webhook "([^"]+)" does not support dry run`,
		`ValidatingAdmissionPolicy '([^']+)' (?:with binding '[^']+' )?denied request`,
		`policy ['"]([^'"]+)['"] (?:with binding '[^']+' )?denied request`,
	} {
		if regexp.MustCompile(expression).MatchString(message) {
			return true
		}
	}
	return false
}

// AboutObject tells whether a 404 or 409 is the server's own word about the
// object itself: that it is not there, or not as the request demands. A webhook
// that refuses with that code, or a version that is no longer served (404 for
// the path), must not be taken for it: the object would count as gone. It cannot tell
// the 404 of a subresource that the version does not have, which has the same words.
func AboutObject(err error, resource, name string) bool {
	status, isStatus := statusOf(err)
	if !isStatus || status.Details == nil || status.Details.Name != name || status.Details.Kind != resource {
		return false
	}
	if denied(status.Message) {
		return false
	}
	for _, cause := range status.Details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return false // The answer was not a Status; client-go made one up.
		}
	}
	switch status.Reason {
	case metav1.StatusReasonNotFound, metav1.StatusReasonConflict:
		return true
	default:
		return false
	}
}

// Initializing tells whether a LIST was answered 429 "storage is
// (re)initializing". It is not throttling: the server could not fill its cache of
// the resource, which may last for ever (fact 14). A LIST with a limit and
// without a selector goes past the cache and tells the cause.
func Initializing(err error) bool {
	status, isStatus := statusOf(err)
	return isStatus && strings.Contains(status.Message, textInitializing)
}

func statusOf(err error) (metav1.Status, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return metav1.Status{}, false
	}
	return status.Status(), true
}

// corruptCause takes the object and the cause out of "Internal error occurred:
// StorageError: corrupt object, Code: 7, Key: KEY, ResourceVersion: 0,
// AdditionalErrorMsg: object not decodable revision=N: CAUSE".
func corruptCause(message string) string {
	start := strings.Index(message, textStorageError)
	if start < 0 {
		return message
	}
	for _, text := range []string{textConversionHook, textConversionFrom, textConversionTo} {
		at := strings.Index(message[start:], text)
		if at < 0 {
			continue
		}
		cause := message[start+at:]
		if key := regexp.MustCompile(`Key: ([^,]+), `).FindStringSubmatch(message[start : start+at]); key != nil {
			cause = key[1] + ": " + cause
		}
		return cause
	}
	return message
}

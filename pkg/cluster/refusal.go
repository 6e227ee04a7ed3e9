package cluster

import (
	"net/http"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// Object returns the failure as one of an object.
func (f Failure) Object(key types.NamespacedName, uid types.UID) v1alpha1.ObjectFailure {
	outcome := v1alpha1.FailureFailed
	if f.Refused {
		outcome = v1alpha1.FailureRefused
	}
	return v1alpha1.ObjectFailure{
		Namespace: key.Namespace,
		Name:      key.Name,
		UID:       string(uid),
		Outcome:   outcome,
		Reason:    string(f.Reason),
		By:        f.By,
		ByName:    f.Name,
		Message:   f.Message,
	}
}

// forbidden is how the server begins to say that something is forbidden. The
// rest may be anybody's words; this is the server's own, in which a name has no
// quotes.
const forbidden = `^\S+ (?:"[^"]*" )?is forbidden: `

// admissionTexts are how each part of admission says no, at the start of a
// message: what comes later may be the text of a schema rule, which says what its
// author likes.
func admissionTexts() []struct {
	by   v1alpha1.Party
	text string
} {
	return []struct {
		by   v1alpha1.Party
		text string
	}{
		{v1alpha1.PartyWebhook, `^admission webhook "([^"]+)" (?:denied the request|does not support dry run)`},
		{v1alpha1.PartyPolicy, forbidden + `ValidatingAdmissionPolicy '([^']+)' (?:with binding '[^']*' )?denied request`},
		// A MutatingAdmissionPolicy does not say what it is.
		{v1alpha1.PartyPolicy, forbidden + `policy ['"]([^'"]+)['"] (?:with binding '[^']*' )?denied request`},
		{v1alpha1.PartyQuota, forbidden + `exceeded quota: ([^,\s]+)`},
	}
}

// refusedByAdmission tells what part of admission refused a request. Any of
// them may choose the code, 404, 409 and 503 among them.
func refusedByAdmission(status metav1.Status) (Failure, bool) {
	for _, known := range admissionTexts() {
		if match := regexp.MustCompile(known.text).FindStringSubmatch(status.Message); match != nil {
			return Failure{Reason: ReasonAdmissionDenied, Refused: true, By: known.by, Name: match[1]}, true
		}
	}
	// RBAC says who cannot do what; admission plugins say why not.
	if status.Code == http.StatusForbidden && strings.Contains(status.Message, textForbidden) && !strings.Contains(status.Message, textRBAC) {
		return Failure{Reason: ReasonAdmissionDenied, Refused: true, By: v1alpha1.PartyAdmission}, true
	}
	return Failure{}, false
}

// conversionFailed is the failure of a conversion: a refusal, unless the webhook
// could not be asked, or it is not known that the conversion was to blame.
func conversionFailed(status metav1.Status, err error) Failure {
	failure := Failure{Reason: ReasonConversionFailed, By: v1alpha1.PartyConversion}
	caused := containsAny(status.Message, textConversionHook, textConversionFrom, textConversionTo)
	failure.Refused = caused && !ConverterDown(err)
	return failure
}

func containsAny(message string, texts ...string) bool {
	for _, text := range texts {
		if strings.Contains(message, text) {
			return true
		}
	}
	return false
}

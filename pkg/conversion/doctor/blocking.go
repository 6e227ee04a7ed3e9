package doctor

import (
	"slices"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// Blocking returns the failed checks of a report that a migration must not start
// with: answers that the API server would not take, calls that fail now and then,
// and answers that depend on more than the question. That the webhook cannot be
// reached from here, or is unkind to requests that the server does not send, is no
// reason.
func Blocking(report v1alpha1.CheckedWebhook) []v1alpha1.WebhookCheck {
	var blocking []v1alpha1.WebhookCheck
	for _, check := range report.Checks {
		if check.Result == v1alpha1.CheckFailed && blocks(check.Name) {
			blocking = append(blocking, check)
		}
	}
	return blocking
}

func blocks(name string) bool {
	if slices.Contains(regular(), name) {
		return refusing(name)
	}
	return slices.Contains([]string{checkReliability, checkNoState, checkConcurrent, checkStatus}, name)
}

// Quick are the checks that a rehearsal leaves out: what they send is large, or a
// better proof of it is made elsewhere.
func Quick() []string {
	return []string{checkLarge, checkMany, checkLatency, checkRoundTrip, checkKnown}
}

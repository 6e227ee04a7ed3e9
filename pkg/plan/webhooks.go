package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// WriteTimeout is how long a write may go on after spec.versions was changed and
// still end as the CRD was before: the server ends it by then.
const WriteTimeout = 35 * time.Second

// webhookWarning names the admission webhooks that the rewrite depends on.
func (b *builder) webhookWarning() {
	o := b.state.Observations
	switch {
	case b.intent.Path == PathStatus:
		b.statusWarning()
	case len(o.Webhooks) > 0:
		b.warn("each rewrite passes the admission webhooks %s, which can refuse or delay it", strings.Join(o.Webhooks, ", "))
	}
	if o.WebhooksError != "" {
		b.warn("admission webhooks could not be listed: %s", o.WebhooksError)
	}
}

// heldWrites makes a step wait that goes over the objects where a webhook may hold a
// write, which then brings what the step is to find out or put right afterwards. Nothing
// else can keep a server from ending a write before the barrier is passed.
func (b *builder) heldWrites(step *v1alpha1.Step) {
	o := b.state.Observations
	var who string
	switch {
	case len(o.Webhooks) > 0:
		who = "an admission webhook"
	case b.state.Webhook():
		who = "the conversion webhook"
	case o.WebhooksError != "":
		who = "an admission webhook, if there is one,"
	default:
		return
	}
	since := "the last change of spec.versions"
	if b.has(v1alpha1.ActionSetStorage) {
		since = "the change of the storage version"
	}
	what := "is then still persisted at the old version"
	if step.Action == v1alpha1.ActionCleanManagedFields {
		what = fmt.Sprintf("was sent at %s and still adds one", step.Version)
	}
	step.HeldWrites = true
	step.Why += fmt.Sprintf("; %s may hold a write for up to %s that %s", who, WriteTimeout, what)
	step.Verify = append(step.Verify, v1alpha1.Check{
		ID: "held-writes", Description: fmt.Sprintf("that pass started at least %s after %s, for which the step waits", WriteTimeout, since),
	})
}

package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// WriteTimeout is how long a write may go on after the storage version was
// changed and still be persisted at the old one: the server ends it by then.
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

// heldWrites makes a verify step wait where a webhook may hold a write. Nothing
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
	step.HeldWrites = true
	step.Why += fmt.Sprintf("; %s may hold a write for up to %s that is then still persisted at the old version", who, WriteTimeout)
	step.Verify = append(step.Verify, v1alpha1.Check{
		ID: "held-writes", Description: fmt.Sprintf("that pass started at least %s after %s, for which the step waits", WriteTimeout, since),
	})
}

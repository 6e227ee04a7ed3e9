package plan

import (
	"fmt"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// blockUnreadable is the blocker for objects at a version that is gone.
const blockUnreadable = "etcd-unreadable"

// etcdGate weighs what etcd holds. An etcd that runs can block. A snapshot is older
// than the plan: it can only warn, and never stands in for the verify pass.
func (b *builder) etcdGate() {
	stored := b.state.Observations.Stored
	if stored == nil {
		return
	}
	for _, count := range b.state.StoredUnreadable() {
		if b.after.Version(count.Version) != nil {
			continue // A step adds it.
		}
		message := stored.Holds(count) + ", which spec.versions does not have: they can be neither read nor rewritten"
		resolve := fmt.Sprintf("kubectl crdver restore %s -f MANIFEST %s", count.Version, b.state.CRD.Name)
		if stored.Snapshot {
			b.warn("%s; if that is still so: %s", message, resolve)
			continue
		}
		b.block(v1alpha1.Blocker{ID: blockUnreadable, Message: message, Resolve: resolve})
	}
	for _, count := range b.state.StoredUnlisted() {
		b.warn("%s, which status.storedVersions does not list", stored.Holds(count))
	}
	if unknown := b.state.StoredUnknown(); unknown > 0 {
		b.warn("%s does not tell the version of all objects (%d): they are encrypted at rest, or cannot be decoded", stored.Source, unknown)
	}
}

// etcdPreconditions tells, at the steps that rest on the proof, that etcd is read.
func (b *builder) etcdPreconditions() {
	if len(b.intent.EtcdEndpoints) == 0 {
		return
	}
	for i := range b.plan.Steps {
		step := &b.plan.Steps[i]
		if step.Action != v1alpha1.ActionTrim && step.Action != v1alpha1.ActionRecord && step.Action != v1alpha1.ActionRemove {
			continue
		}
		step.Preconditions = append(step.Preconditions, v1alpha1.Precondition{
			ID: "etcd", Status: v1alpha1.PreconditionPending,
			Description: fmt.Sprintf("etcd (%s) holds no object at another version than the storage version", strings.Join(b.intent.EtcdEndpoints, ", ")),
		})
	}
}

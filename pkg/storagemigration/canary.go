package storagemigration

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

const (
	// canaryStable is the number of patches in a row that must find a canary
	// current. Of two servers that disagree, chosen at random, each patch has an
	// even chance to show it.
	canaryStable = 6
	// canaryStableBlind is the same where the hash could not be looked at.
	canaryStableBlind = 20
	// canaryConflicts is how often a canary may be written by somebody else before
	// it is left alone.
	canaryConflicts = 20
	canaryInterval  = 20 * time.Millisecond
	// filteredPage is how many objects canaries are looked for among where only some
	// of them are to be written.
	filteredPage = 100
)

// waitForCanaries patches a few objects, one after the other, until none of them
// changes any more. Servers that persist at different versions rewrite them back
// and forth. Without objects, or when they cannot be patched, there is nothing to
// see: the migration itself will tell what is wrong.
func (b *barrier) waitForCanaries(ctx context.Context, stable int) error {
	objects := Guarded(b.cluster.Objects(b.options.Resource), b.options.Guard)
	options := cluster.PageOptions{
		Namespace: b.options.Namespace, LabelSelector: b.options.LabelSelector, Limit: int64(b.options.Canaries), FreshConnection: true,
	}
	if b.options.Filter != nil {
		options.Limit = filteredPage
	}
	page, err := objects.ListMetadata(ctx, options)
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if err != nil {
		b.last = cluster.Explain(err).Message
		return nil
	}
	canaries := 0
	for i := range page.Items {
		if canaries == b.options.Canaries {
			break
		}
		if b.options.Filter != nil && !b.options.Filter(&page.Items[i]) {
			continue
		}
		canaries++
		if err := b.waitForCanary(ctx, objects, &page.Items[i], stable); err != nil {
			return err
		}
	}
	return nil
}

func (b *barrier) waitForCanary(ctx context.Context, objects cluster.Objects, object *metav1.PartialObjectMetadata, stable int) error {
	var (
		key       = types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
		resource  = objects.Resource().Resource
		version   = object.ResourceVersion
		conflicts = 0
		attempt   = 0
		rewritten = 0
	)
	for unchanged := 0; unchanged < stable; {
		patched, err := objects.PatchMetadata(ctx, key, cluster.PatchRequest{
			Type:            types.MergePatchType,
			Body:            fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"uid":%q}}`, version, object.UID),
			Subresource:     b.options.Subresource,
			FieldManager:    b.options.FieldManager,
			FreshConnection: true,
		})
		wait := canaryInterval
		switch {
		case ctx.Err() != nil:
			return ended(ctx)
		case err == nil && patched.ResourceVersion == version:
			unchanged++
		case err == nil:
			// This very patch was stored: a server had persisted it in another form.
			unchanged, version = 0, patched.ResourceVersion
			if rewritten++; rewritten > 1 { // The first time is what a migration is for.
				b.last = fmt.Sprintf("object %s, which servers rewrite back and forth", display(key))
			} else if b.options.Rewritten != nil {
				b.options.Rewritten(key)
			}
		case apierrors.IsConflict(err) && cluster.AboutObject(err, resource, key.Name):
			// Somebody else wrote it, which says nothing about servers.
			if conflicts++; conflicts > canaryConflicts {
				return nil
			}
			current, err := objects.Get(ctx, key)
			if err != nil || current.GetUID() != object.UID {
				return ctx.Err() // It is gone, or cannot be read: no canary.
			}
			version = current.GetResourceVersion()
		case again(err):
			wait = backoff(attempt, cluster.RetryAfter(err))
			attempt++
			b.last = cluster.Explain(err).Message
		default:
			// Refused or gone. The migration reports it; here it only is no canary.
			return nil
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}

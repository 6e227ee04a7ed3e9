package storagemigration

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/managedfields"
)

// pageBytes is what a page should not exceed. Objects with a quarter of a
// megabyte of annotations exist; 500 of them would break the memory budget.
const pageBytes = 4 << 20

// firstPageSize is that of the first page: the server needs a tenth of a second and
// more to read a full one, and until it is there nothing can be rewritten.
const firstPageSize = 50

// pageGrowth is by how much the next page may be larger.
const pageGrowth = 4

// minPageSize keeps the number of requests bearable when objects are that large.
const minPageSize = 25

// listed is an object on the queue, with its number in the order of the list.
type listed struct {
	*metav1.PartialObjectMetadata
	number int64
}

// listAll puts the objects of all lists on the queue: those of the namespaces that
// go first, and, if none of these failed, the rest.
func (p *pass) listAll(run, requests context.Context, queue chan<- listed) error {
	for _, namespace := range p.options.NamespacesFirst {
		if err := p.list(run, requests, queue, namespace, true); err != nil {
			return err
		}
	}
	if len(p.options.NamespacesFirst) > 0 {
		p.pending.Wait()
		if p.unwell.Load() {
			p.heldBack()
			return nil
		}
	}
	return p.list(run, requests, queue, p.options.Namespace, false)
}

// heldBack notes that the rest is left alone.
func (p *pass) heldBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.result.HeldBack = true
}

// list puts the objects of all pages on the queue.
func (p *pass) list(run, requests context.Context, queue chan<- listed, namespace string, first bool) error {
	options := cluster.PageOptions{
		Namespace:     namespace,
		LabelSelector: p.options.LabelSelector,
		Limit:         min(p.options.PageSize, firstPageSize),
	}
	if p.bandwidth != nil {
		options.Limit = min(options.Limit, minPageSize) // Until it is known how large the objects are.
	}
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return fmt.Errorf("reading the label selector: %w", err)
	}
	for {
		page, err := p.page(run, requests, options)
		if cluster.Initializing(err) && options.LabelSelector != "" {
			// Fact 14: a 429 that is no throttling and may never end. Without a
			// selector, the list goes past the server's cache, and either works or
			// tells what is wrong; the selector is applied here.
			options.LabelSelector = ""
			p.countRetry()
			continue
		}
		if token, expired := cluster.InconsistentContinue(err); expired && token != options.Continue {
			// Fact 9. What was created since the list began may be missing from
			// its rest; it was persisted at the storage version.
			options.Continue = token
			continue
		}
		if err != nil && p.listElsewhere(err) {
			continue // The token is one of the resource, not of the version.
		}
		if err != nil {
			return p.whyUnlisted(err) // It says what was listed.
		}
		options.Limit = p.nextLimit(options.Limit, page)
		if err := p.enqueue(run, queue, page, selector, first); err != nil {
			return err
		}
		// Only an empty token ends a list: pages may be short, or empty.
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

// listElsewhere makes the pass list through another version where the server cannot
// list at this one because of some object. It returns false if there is none left.
func (p *pass) listElsewhere(err error) bool {
	// The list at another version is that of all objects.
	some := p.named || has[*sampled](p.objects)
	if some || p.listedAt == len(p.options.ListThrough) || cluster.Explain(err).Reason != cluster.ReasonConversionFailed || cluster.ConverterDown(err) {
		return false
	}
	if p.unlisted == nil {
		p.unlisted = err
	}
	p.listedAt++
	p.notice("an object fails the whole list of %s: listing them at %s", objectsName(p.objects), p.lister().Resource().Version)
	return true
}

// whyUnlisted returns the error of a list: where another version was no help, that
// of the first one.
func (p *pass) whyUnlisted(err error) error {
	if p.unlisted != nil && (apierrors.IsNotFound(err) || cluster.Explain(err).Reason == cluster.ReasonConversionFailed) {
		return p.unlisted
	}
	return err
}

// lister is where the objects are listed.
func (p *pass) lister() cluster.Objects {
	if p.listedAt == 0 {
		return p.objects
	}
	return p.options.ListThrough[p.listedAt-1]
}

// enqueue puts the objects of a page on the queue, but for those that are done.
func (p *pass) enqueue(
	run context.Context, queue chan<- listed, page *metav1.PartialObjectMetadataList, selector labels.Selector, first bool,
) error {
	gone := func(object *metav1.PartialObjectMetadata) bool { // Over in its turn.
		return !first && slices.Contains(p.options.NamespacesFirst, object.Namespace)
	}
	for i := range page.Items {
		if !gone(&page.Items[i]) {
			p.seen++
		}
	}
	p.setTotal(p.seen, page.RemainingItemCount)
	for i := range page.Items {
		object := &page.Items[i]
		if gone(object) || !selector.Matches(labels.Set(object.Labels)) || p.options.Filter != nil && !p.options.Filter(object) {
			continue
		}
		if p.slim {
			object = slim(object) // Lets go of the page.
		}
		p.taken++
		item := listed{PartialObjectMetadata: object}
		if !first { // The order of the mark is that of the one list of all.
			item.number = p.watermark.list(keyOf(object))
			if p.skips(object) {
				p.count(object, OutcomeCurrent, nil)
				p.watermark.done(item.number, true)
				continue
			}
		}
		p.pending.Add(1)
		select {
		case queue <- item:
		case <-run.Done():
			p.pending.Done()
			return ended(run)
		}
	}
	return nil
}

// skips tells whether an earlier pass of the same migration is done with an object.
func (p *pass) skips(object *metav1.PartialObjectMetadata) bool {
	through := p.options.SkipThrough
	return through.Name != "" && compareKeys(keyOf(object), through) <= 0
}

func keyOf(object *metav1.PartialObjectMetadata) types.NamespacedName {
	return types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
}

// page reads one page, again and again for a while if the server cannot produce
// it because it cannot convert an object: a conversion webhook may be coming up.
func (p *pass) page(run, requests context.Context, options cluster.PageOptions) (*metav1.PartialObjectMetadataList, error) {
	began := time.Now()
	for attempt := 0; ; attempt++ {
		var page *metav1.PartialObjectMetadataList
		err := p.send(run, requests, unweighed, func(ctx context.Context) (err error) {
			page, err = p.lister().ListMetadata(ctx, options)
			if cluster.Initializing(err) && options.LabelSelector == "" {
				if cause := p.listCause(ctx); cause != nil {
					return cause
				}
			}
			return err
		})
		if err == nil || cluster.Explain(err).Reason != cluster.ReasonConversionFailed && !cluster.Initializing(err) {
			return page, err
		}
		if cluster.Initializing(err) && options.LabelSelector != "" {
			return nil, err
		}
		wait := backoff(attempt, cluster.RetryAfter(err))
		if time.Since(began)+wait > p.options.ListFor {
			return nil, err
		}
		p.countRetry()
		if err := sleep(run, wait); err != nil {
			return nil, err
		}
	}
}

// listCause returns why the server cannot list, if a LIST of one object can tell
// (fact 14).
func (p *pass) listCause(ctx context.Context) error {
	_, err := p.lister().ListMetadata(ctx, cluster.PageOptions{Limit: 1})
	if cluster.Initializing(err) {
		return nil // It told nothing new.
	}
	return err
}

// nextLimit makes pages smaller where objects carry much metadata, and where a
// page would take up more bandwidth than may be used at once.
func (p *pass) nextLimit(limit int64, page *metav1.PartialObjectMetadataList) int64 {
	if len(page.Items) == 0 {
		return limit
	}
	most := int64(pageBytes)
	if p.bandwidth != nil {
		most = min(most, int64(float64(p.options.MaxBandwidth)*burst))
	}
	perObject := max(1, int64(page.Size()/len(page.Items)))
	return min(p.options.PageSize, pageGrowth*limit, max(minPageSize, most/perObject))
}

// slim copies what the no-op patch and a report need of an object.
func slim(object *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace:       object.Namespace,
		Name:            object.Name,
		UID:             object.UID,
		ResourceVersion: object.ResourceVersion,
		ManagedFields:   managedfields.Managers(object.ManagedFields),
	}}
}

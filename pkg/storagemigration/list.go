package storagemigration

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// pageBytes is what a page should not exceed. Objects with a quarter of a
// megabyte of annotations exist; 500 of them would break the memory budget.
const pageBytes = 4 << 20

// minPageSize keeps the number of requests bearable when objects are that large.
const minPageSize = 25

// list puts the objects of all pages on the queue.
func (p *pass) list(run, requests context.Context, queue chan<- *metav1.PartialObjectMetadata) error {
	options := cluster.PageOptions{
		Namespace:     p.options.Namespace,
		LabelSelector: p.options.LabelSelector,
		Limit:         p.options.PageSize,
	}
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return fmt.Errorf("reading the label selector: %w", err)
	}
	seen := int64(0)
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
		if err != nil {
			return err // It says what was listed.
		}
		seen += int64(len(page.Items))
		p.setTotal(seen, page.RemainingItemCount)
		options.Limit = nextLimit(options.Limit, p.options.PageSize, page)
		for i := range page.Items {
			object := &page.Items[i]
			if !selector.Matches(labels.Set(object.Labels)) || p.options.Filter != nil && !p.options.Filter(object) {
				continue
			}
			if p.slim {
				object = slim(object) // Lets go of the page.
			}
			select {
			case queue <- object:
			case <-run.Done():
				return ended(run)
			}
		}
		// Only an empty token ends a list: pages may be short, or empty.
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

// page reads one page, again and again for a while if the server cannot produce
// it because it cannot convert an object: a conversion webhook may be coming up.
func (p *pass) page(run, requests context.Context, options cluster.PageOptions) (*metav1.PartialObjectMetadataList, error) {
	began := time.Now()
	for attempt := 0; ; attempt++ {
		var page *metav1.PartialObjectMetadataList
		err := p.send(run, requests, func(ctx context.Context) (err error) {
			page, err = p.objects.ListMetadata(ctx, options)
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
	_, err := p.objects.ListMetadata(ctx, cluster.PageOptions{Limit: 1})
	if cluster.Initializing(err) {
		return nil // It told nothing new.
	}
	return err
}

// nextLimit makes pages smaller where objects carry much metadata.
func nextLimit(limit, most int64, page *metav1.PartialObjectMetadataList) int64 {
	if len(page.Items) == 0 {
		return limit
	}
	perObject := max(1, int64(page.Size()/len(page.Items)))
	return min(most, max(minPageSize, pageBytes/perObject))
}

// slim copies what the no-op patch and a report need of an object.
func slim(object *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace:       object.Namespace,
		Name:            object.Name,
		UID:             object.UID,
		ResourceVersion: object.ResourceVersion,
	}}
}

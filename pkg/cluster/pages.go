package cluster

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// metadataPageSize is what kubectl and the engine use, too.
const metadataPageSize = 500

// EachPage lists the metadata of the objects that options select and calls visit
// for each page, and keeps none. It sends a request again that failed for a
// transient reason, and goes on with an expired list (fact 9). It stops at the
// first error.
func EachPage(ctx context.Context, objects Objects, options PageOptions, visit func(*metav1.PartialObjectMetadataList) error) error {
	err := eachPage(ctx, options, objects.ListMetadata, visit)
	if !Initializing(err) || options.LabelSelector == "" {
		return err
	}
	// Fact 14: a list with a selector comes from the server's cache, which may never
	// be filled. Without one it goes past the cache, and either works or tells what
	// is wrong. The cache answers the first page only: nothing was visited yet.
	selector, invalid := labels.Parse(options.LabelSelector)
	if invalid != nil {
		return err
	}
	options.LabelSelector = ""
	return eachPage(ctx, options, objects.ListMetadata, func(page *metav1.PartialObjectMetadataList) error {
		page.Items = slices.DeleteFunc(page.Items, func(o metav1.PartialObjectMetadata) bool { return !selector.Matches(labels.Set(o.Labels)) })
		return visit(page)
	})
}

// EachObject lists the whole objects that options select, as [EachPage] does, and
// calls visit for each; only one page is kept at a time.
func EachObject(ctx context.Context, objects Objects, options PageOptions, visit func(*unstructured.Unstructured) error) error {
	return eachPage(ctx, options, objects.List, func(page *unstructured.UnstructuredList) error {
		for i := range page.Items {
			if err := visit(&page.Items[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func eachPage[P interface{ GetContinue() string }](
	ctx context.Context, options PageOptions, list func(context.Context, PageOptions) (P, error), visit func(P) error,
) error {
	if options.Limit == 0 {
		options.Limit = metadataPageSize
	}
	for {
		var page P
		err := Retry(ctx, func() (err error) {
			page, err = list(ctx, options)
			return err
		})
		if token, expired := InconsistentContinue(err); expired {
			options.Continue = token
			continue
		}
		if err != nil {
			return err
		}
		if err := visit(page); err != nil {
			return err
		}
		// Only an empty token ends a list; a page may be empty or short.
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

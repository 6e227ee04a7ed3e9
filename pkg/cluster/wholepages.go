package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// EachObject lists the whole objects that options select and calls visit for
// each; only one page is kept at a time. Like [EachPage], it sends a request again
// that failed for a transient reason, goes on with an expired list (fact 9), and
// stops at the first error.
func EachObject(ctx context.Context, objects Objects, options PageOptions, visit func(*unstructured.Unstructured) error) error {
	if options.Limit == 0 {
		options.Limit = metadataPageSize
	}
	for {
		var page *unstructured.UnstructuredList
		err := Retry(ctx, func() (err error) {
			page, err = objects.List(ctx, options)
			return err
		})
		if token, expired := InconsistentContinue(err); expired {
			options.Continue = token
			continue
		}
		if err != nil {
			return err
		}
		for i := range page.Items {
			if err := visit(&page.Items[i]); err != nil {
				return err
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

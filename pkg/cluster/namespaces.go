package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespaceExists implements [Interface].
func (c *Cluster) NamespaceExists(ctx context.Context, name string) (bool, error) {
	err := Retry(ctx, func() error {
		_, err := decodeMetadata[metav1.PartialObjectMetadata](c.raw.Get().AbsPath("api", "v1", "namespaces", name).
			SetHeader("Accept", acceptMetadata).
			MaxRetries(0).
			Do(ctx))
		return err
	})
	switch {
	case err == nil:
		return true, nil
	case missing(err, "namespaces"):
		return false, nil
	case apierrors.IsNotFound(err):
		return false, fmt.Errorf("reading namespace %s: %w", name, ErrNotSupported)
	}
	return false, fmt.Errorf("reading namespace %s: %w", name, plain(err))
}

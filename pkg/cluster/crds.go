package cluster

import (
	"context"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// crdPageSize keeps a page of CRDs of 50 KB each at a few megabytes.
const crdPageSize = 50

type crds struct {
	client apiextensionsclient.CustomResourceDefinitionInterface
}

// CRDs implements [Interface].
func (c *Cluster) CRDs() CRDs { return crds{client: c.crds.CustomResourceDefinitions()} }

func (c crds) Get(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	var crd *apiextensionsv1.CustomResourceDefinition
	err := retryAnswered(ctx, func() (err error) {
		crd, err = c.client.Get(ctx, name, metav1.GetOptions{})
		return err //nolint:wrapcheck // It is below.
	})
	if err != nil {
		return nil, fmt.Errorf("reading CRD %s: %w", name, plain(err))
	}
	return crd, nil
}

func (c crds) List(ctx context.Context, options ListOptions, visit func(*apiextensionsv1.CustomResourceDefinition) error) error {
	request := metav1.ListOptions{LabelSelector: options.LabelSelector, Limit: options.PageSize}
	if request.Limit == 0 {
		request.Limit = crdPageSize
	}
	for {
		var page *apiextensionsv1.CustomResourceDefinitionList
		err := retryAnswered(ctx, func() (err error) {
			page, err = c.client.List(ctx, request)
			return err //nolint:wrapcheck // It is below.
		})
		if token, expired := InconsistentContinue(err); expired {
			request.Continue = token
			continue
		}
		if err != nil {
			return fmt.Errorf("listing CRDs: %w", plain(err))
		}
		for i := range page.Items {
			if err := visit(&page.Items[i]); err != nil {
				return err
			}
		}
		// Only an empty token ends a list; a page may be empty or short.
		if request.Continue = page.Continue; request.Continue == "" {
			return nil
		}
	}
}

func (c crds) Patch(ctx context.Context, name string, request PatchRequest) (*apiextensionsv1.CustomResourceDefinition, error) {
	options := metav1.PatchOptions{FieldManager: request.FieldManager}
	if request.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	var subresources []string
	if request.Subresource != "" {
		subresources = []string{request.Subresource}
	}
	crd, err := c.client.Patch(ctx, name, request.Type, request.Body, options, subresources...)
	if err != nil {
		return nil, fmt.Errorf("patching CRD %s: %w", name, plain(err))
	}
	return crd, nil
}

func (c crds) DryRunCreate(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, fieldManager string) error {
	options := metav1.CreateOptions{FieldManager: fieldManager, DryRun: []string{metav1.DryRunAll}}
	if _, err := c.client.Create(ctx, crd, options); err != nil {
		return fmt.Errorf("creating CRD %s (dry run): %w", crd.Name, plain(err))
	}
	return nil
}

// InconsistentContinue tells whether err says that the continue token of a list
// has expired (410 Gone), and returns the token with which the list can go on
// (fact 9): the rest of it is read as it is by then, so that objects that were
// created meanwhile may be missing and no other. Without such a token, the list
// has to be started again, and expired is false.
func InconsistentContinue(err error) (token string, expired bool) {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) || status.Status().ListMeta.Continue == "" {
		return "", false
	}
	return status.Status().ListMeta.Continue, true
}

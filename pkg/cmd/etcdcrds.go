package cmd

import (
	"context"
	"errors"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/etcd"
)

// etcdCRDs are the CRDs of an etcd, so that names mean the same as on a cluster.
type etcdCRDs struct{ definitions etcd.Definitions }

var _ cluster.CRDs = etcdCRDs{}

// Get implements [cluster.CRDs].
func (e etcdCRDs) Get(_ context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	if one := e.definitions.Get(name); one != nil {
		return one, nil
	}
	//nolint:wrapcheck // What the API server says.
	return nil, apierrors.NewNotFound(apiextensionsv1.Resource("customresourcedefinitions"), name)
}

// List implements [cluster.CRDs].
func (e etcdCRDs) List(_ context.Context, _ cluster.ListOptions, visit func(*apiextensionsv1.CustomResourceDefinition) error) error {
	for _, one := range e.definitions.Items {
		if err := visit(one); err != nil {
			return err
		}
	}
	return nil
}

var errReadOnly = errors.New("etcd is only read")

// Patch implements [cluster.CRDs].
func (e etcdCRDs) Patch(context.Context, string, cluster.PatchRequest) (*apiextensionsv1.CustomResourceDefinition, error) {
	return nil, errReadOnly
}

// DryRunCreate implements [cluster.CRDs].
func (e etcdCRDs) DryRunCreate(context.Context, *apiextensionsv1.CustomResourceDefinition, string) error {
	return errReadOnly
}

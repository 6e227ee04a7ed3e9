package observe

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/plan"
)

// Namespaces looks whether the namespaces are there that an intent names: a list
// in one that is not is empty, and looks like one that is done.
func (o *Observer) Namespaces(ctx context.Context, intent v1alpha1.Intent, observations *lifecycle.Observations) {
	for _, name := range plan.Namespaces(intent) {
		exists, err := o.cluster.NamespaceExists(ctx, name)
		switch {
		case errors.Is(err, cluster.ErrNotSupported):
			// A server without namespaces of its own takes any.
			return
		case err != nil:
			observations.NamespacesError = cluster.Explain(err).Message
		case !exists && !slices.Contains(observations.MissingNamespaces, name):
			observations.MissingNamespaces = append(observations.MissingNamespaces, name)
		}
	}
}

// selected counts the objects that a narrowed migration is about. The rehearsal
// has counted them, where it was made; the server says it of a whole list only.
func (o *Observer) selected(ctx context.Context, c crd.CRD, intent v1alpha1.Intent, observations *lifecycle.Observations) {
	if !plan.Narrowed(intent) || intent.Verb != v1alpha1.VerbMigrate || observations.LostVersion != "" {
		return
	}
	if r := observations.Rehearsal; r != nil {
		observations.Selected = &r.Total
		return
	}
	holds, err := plan.InShard(intent)
	if err != nil {
		return // The plan was refused for it.
	}
	version := lifecycle.New(c, lifecycle.Observations{}).Endpoint()
	objects := o.cluster.Objects(schema.GroupVersionResource{Group: c.Spec.Group, Version: version, Resource: c.Spec.Names.Plural})
	var n int64
	page := cluster.PageOptions{Namespace: intent.Namespace, LabelSelector: intent.Selector}
	err = cluster.EachPage(ctx, objects, page, func(page *metav1.PartialObjectMetadataList) error {
		for i := range page.Items {
			if holds == nil || holds(page.Items[i].Namespace, page.Items[i].Name) {
				n++
			}
		}
		return nil
	})
	if err != nil {
		observations.SelectedError = explain(c, err)
		return
	}
	observations.Selected = &n
}

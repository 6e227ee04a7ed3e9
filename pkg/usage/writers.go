package usage

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// Writers collects who wrote the objects of a CRD: from managedFields, and from
// the annotation that client-side apply leaves. One pass over the metadata, page
// by page, serves all versions.
type Writers struct {
	Client cluster.Interface

	lock    sync.Mutex
	objects map[string]int64
}

var (
	_ Collector = &Writers{}
	_ Counter   = &Writers{}
)

// Source implements [Collector].
func (*Writers) Source() v1alpha1.UsageSource { return v1alpha1.UsageManagedFields }

// Objects implements [Counter].
func (w *Writers) Objects(name string) (int64, bool) {
	w.lock.Lock()
	defer w.lock.Unlock()
	count, known := w.objects[name]
	return count, known
}

// Collect implements [Collector].
func (w *Writers) Collect(ctx context.Context, target Target) ([]v1alpha1.UsageEvidence, []v1alpha1.Unlooked, error) {
	through := target.Endpoint()
	if through == "" {
		return nil, []v1alpha1.Unlooked{{
			Source: v1alpha1.UsageManagedFields, Why: "no version is served, so that no object can be read",
			Command: "kubectl crdver restore VERSION " + target.CRD.Name,
		}}, nil
	}
	found := newWriting(target)
	err := cluster.EachPage(ctx, w.Client.Objects(target.Resource(through)), cluster.PageOptions{}, func(page *metav1.PartialObjectMetadataList) error {
		for i := range page.Items {
			found.add(&page.Items[i])
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("reading the objects of %s: %w", target.CRD.Name, context.Cause(ctx))
	}
	unlooked := found.unlooked()
	if err != nil {
		reason := why(target.CRD.Name, err)
		if found.objects > 0 {
			reason += fmt.Sprintf("; %d objects were read before that", found.objects)
		}
		unlooked = append(unlooked, v1alpha1.Unlooked{Source: v1alpha1.UsageManagedFields, Why: reason})
	} else {
		w.count(target.CRD.Name, found.objects)
	}
	return found.evidence(), unlooked, nil // What was found before a failure is true.
}

func (w *Writers) count(name string, objects int64) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.objects == nil {
		w.objects = map[string]int64{}
	}
	w.objects[name] = objects
}

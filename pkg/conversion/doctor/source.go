package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// page is how many objects are read, and converted, at a time.
const page = 50

// Where objects come from.
const (
	sourceCluster = "cluster"
	sourceFiles   = "files"
	sourceSchema  = "schema"
)

// Source has objects to convert.
type Source interface {
	// Name is "cluster" or "files".
	Name() string
	// Each calls visit for the objects at a version, some at a time, until it
	// returns an error.
	Each(ctx context.Context, version string, visit func([]map[string]any) error) error
}

// First returns the first few objects of a source at a version.
func First(ctx context.Context, source Source, version string, most int) ([]map[string]any, error) {
	var first []map[string]any
	enough := errors.New("enough")
	err := source.Each(ctx, version, func(objects []map[string]any) error {
		first = append(first, objects...)
		if len(first) >= most {
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		return nil, err
	}
	return first[:min(len(first), most)], nil
}

// files are objects of manifests.
type files map[string][]map[string]any

// NewFiles returns objects that were read from files as a source: those of one
// kind, by their version.
func NewFiles(c crd.CRD, objects []map[string]any) Source {
	found := files{}
	for _, object := range objects {
		apiVersion, _ := object["apiVersion"].(string)
		group, version, _ := strings.Cut(apiVersion, "/")
		if group == c.Spec.Group && object["kind"] == c.Spec.Names.Kind {
			found[version] = append(found[version], object)
		}
	}
	return found
}

func (files) Name() string { return sourceFiles }

func (f files) Each(_ context.Context, version string, visit func([]map[string]any) error) error {
	for rest := f[version]; len(rest) > 0; {
		n := min(len(rest), page)
		if err := visit(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// live are the objects of a cluster.
type live struct {
	cluster cluster.Interface
	crd     crd.CRD
	sample  int64
}

// NewLive returns the objects of a cluster as a source: all of them if there are
// at most sample, or else so many, spread over the namespaces. It keeps none.
func NewLive(c cluster.Interface, one crd.CRD, sample int64) Source {
	return live{cluster: c, crd: one, sample: sample}
}

func (live) Name() string { return sourceCluster }

func (l live) Each(ctx context.Context, version string, visit func([]map[string]any) error) error {
	objects := l.cluster.Objects(kschema.GroupVersionResource{Group: l.crd.Spec.Group, Version: version, Resource: l.crd.Spec.Names.Plural})
	options := cluster.PageOptions{Limit: page}
	list, err := objects.List(ctx, options)
	if err != nil {
		return fmt.Errorf("reading objects: %w", err)
	}
	if list.GetRemainingItemCount() != nil && int64(len(list.Items))+*list.GetRemainingItemCount() > l.sample {
		return l.chosen(ctx, objects, visit)
	}
	for left := l.sample; ; {
		items := contents(list.Items)
		items = items[:min(int64(len(items)), left)]
		left -= int64(len(items))
		if err := visit(items); err != nil {
			return err
		}
		if list.GetContinue() == "" || left == 0 {
			return nil
		}
		options.Continue = list.GetContinue()
		if list, err = objects.List(ctx, options); err != nil {
			return fmt.Errorf("reading objects: %w", err)
		}
	}
}

// chosen reads a part of the objects one by one.
func (l live) chosen(ctx context.Context, objects cluster.Objects, visit func([]map[string]any) error) error {
	keys, _, err := conversion.Choose(ctx, objects, cluster.PageOptions{Limit: 10 * page}, nil, int(l.sample))
	if err != nil {
		return err
	}
	for len(keys) > 0 {
		n := min(len(keys), page)
		var read []map[string]any
		for _, key := range keys[:n] {
			object, err := objects.Get(ctx, key)
			if err != nil {
				if failure := cluster.Explain(err); failure.Reason == cluster.ReasonConversionFailed {
					return fmt.Errorf("reading objects: %w", err)
				}
				continue // Deleted meanwhile; what it is else is no matter of the webhook.
			}
			read = append(read, object.Object)
		}
		if err := visit(read); err != nil {
			return err
		}
		keys = keys[n:]
	}
	return nil
}

func contents(items []unstructured.Unstructured) []map[string]any {
	objects := make([]map[string]any, len(items))
	for i := range items {
		objects[i] = items[i].Object
	}
	return objects
}

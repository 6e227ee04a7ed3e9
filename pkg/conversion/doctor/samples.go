package doctor

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/schema"
)

const (
	// probeKey is a label and an annotation that no user has.
	probeKey = "crdver.dev/webhook-check"
	// fewest is how many objects the protocol is checked with: with one or two, an
	// answer in another order could look right.
	fewest = 3
)

// samples are a few objects of each version, with metadata that is as full as
// that of objects of a cluster, and their schemas.
type samples struct {
	objects map[string][]map[string]any
	schemas map[string]*schema.Schema
}

// prepare reads a few objects of each version, or makes them up.
func (e *examination) prepare(ctx context.Context) error {
	e.samples = samples{objects: map[string][]map[string]any{}, schemas: map[string]*schema.Schema{}}
	if len(e.versions) < 2 {
		return &stopError{fmt.Sprintf("%d served version: there is nothing to convert", len(e.versions))}
	}
	e.report.Objects.Source = sourceSchema
	for _, version := range e.versions {
		known, err := schema.ForVersion(e.CRD.CustomResourceDefinition, version)
		if err != nil {
			return &stopError{fmt.Sprintf("without the schema of %s nothing can be converted: %v", version, err)}
		}
		e.samples.schemas[version] = known
		var found []map[string]any
		if e.Source != nil {
			if found, err = First(ctx, e.Source, version, fewest); err != nil {
				// Where the webhook is wrong, the API server cannot read objects either.
				e.semantics(checkObjects, v1alpha1.CheckWarning, fmt.Sprintf("at %s: %s; samples are made up instead", version, cluster.Explain(err).Message), nil)
			}
		}
		if len(found) > 0 {
			e.report.Objects.Source = e.Source.Name()
		} else {
			found = []map[string]any{e.made(version)}
		}
		e.samples.objects[version] = full(found)
	}
	e.private = e.report.Objects.Source == sourceCluster
	return nil
}

// made returns an object of a version that is made up from its schema.
func (e *examination) made(version string) map[string]any {
	return Generate(e.CRD, version, e.samples.schemas[version])
}

// full returns at least as many objects as the protocol needs, all different, and
// with all the metadata that an object of a cluster can have.
func full(found []map[string]any) []map[string]any {
	objects := make([]map[string]any, 0, fewest)
	for i := range fewest {
		objects = append(objects, dress(found[i%len(found)], fmt.Sprintf("webhook-check-%d", i)))
	}
	return objects
}

// dress returns a copy of an object with a name of its own and full metadata.
func dress(object map[string]any, name string) map[string]any {
	object = runtime.DeepCopyJSON(object)
	before, _ := object["metadata"].(map[string]any)
	metadata := map[string]any{
		"creationTimestamp": "2030-01-01T00:00:00Z", "generation": int64(1), "resourceVersion": "1",
		"finalizers": []any{probeKey},
	}
	maps.Copy(metadata, before)
	metadata["name"], metadata["uid"] = name, "00000000-0000-4000-8000-"+fmt.Sprintf("%012x", hash(name))
	for _, field := range []string{"labels", "annotations"} {
		fields := maps.Clone(mapOf(metadata, field))
		if fields == nil {
			fields = map[string]any{}
		}
		fields[probeKey] = "kept"
		metadata[field] = fields
	}
	object["metadata"] = metadata
	return object
}

// hash tells names apart in UIDs.
func hash(name string) uint32 {
	sum := uint32(2166136261)
	for _, c := range []byte(name) {
		sum = (sum ^ uint32(c)) * 16777619
	}
	return sum
}

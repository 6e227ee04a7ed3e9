package usage

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// owners looks for owner references in the whole cluster, once for all targets.
type owners struct {
	*Surroundings

	once  sync.Once
	found map[schema.GroupVersionKind]OwnerReferencesResult
	err   error
}

// OwnerReferences looks at the owner references of all objects of the cluster that
// can be listed (fact 16).
func (s *Surroundings) OwnerReferences() Collector { return &owners{Surroundings: s} }

// Source implements [Collector].
func (*owners) Source() v1alpha1.UsageSource { return v1alpha1.UsageOwnerReference }

// Collect implements [Collector].
func (o *owners) Collect(ctx context.Context, target Target) ([]v1alpha1.UsageEvidence, []v1alpha1.Unlooked, error) {
	o.once.Do(func() {
		var all []schema.GroupVersionKind
		for _, target := range o.targets {
			for _, version := range target.Versions {
				all = append(all, owner(target, version))
			}
		}
		o.found, o.err = ownerReferencesTo(ctx, o.client, all)
	})
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("finding owner references: %w", context.Cause(ctx))
	}
	if o.err != nil {
		return nil, []v1alpha1.Unlooked{{Source: o.Source(), Why: why("the resources of the cluster", o.err)}}, nil
	}
	var evidence []v1alpha1.UsageEvidence
	var unlooked []v1alpha1.Unlooked
	for _, version := range target.Versions {
		result := o.found[owner(target, version)]
		for _, resource := range result.Resources {
			evidence = append(evidence, v1alpha1.UsageEvidence{
				Version: version, Who: resource.GroupResource().String(), WhoKind: "resource", What: "names",
				Count: resource.Objects, CountOf: "objects", Examples: resource.Examples, Source: o.Source(), Proves: v1alpha1.ProvesReference,
				Note: "after the version is unserved, the garbage collector may delete them although their owner lives",
			})
		}
		if unlooked == nil && !result.Complete() {
			unlooked = []v1alpha1.Unlooked{{Source: o.Source(), Why: incomplete(result)}}
		}
	}
	return evidence, unlooked, nil
}

func owner(target Target, version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: target.Group(), Version: version, Kind: target.Kind()}
}

func incomplete(result OwnerReferencesResult) string {
	var names []string
	for _, unknown := range result.Unknown {
		names = append(names, fmt.Sprintf("%s (%s)", unknown.Name, unknown.Reason))
	}
	return fmt.Sprintf("%d of %d resources could not be listed: %s", len(names), len(names)+result.Listed, several(names, ""))
}

package executor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// references looks for ownerReferences to a version in the whole cluster.
func (r *run) references(ctx context.Context, version string) (usage.OwnerReferencesResult, error) {
	found, err := usage.OwnerReferences(ctx, r.Cluster, schema.GroupVersionKind{
		Group: r.expected.Group, Version: version, Kind: r.expected.Kind,
	})
	if err != nil {
		return found, fmt.Errorf("looking for ownerReferences to %s: %w", version, err)
	}
	return found, nil
}

// checkReferences makes sure that no ownerReference names a version (fact 16).
func (r *run) checkReferences(ctx context.Context, version string) error {
	found, err := r.references(ctx, version)
	if err != nil {
		return err
	}
	return r.refuseReferences(version, found)
}

func (r *run) refuseReferences(version string, found usage.OwnerReferencesResult) error {
	if n := found.Objects; n > 0 {
		return refusef("%s an ownerReference to %s/%s %s by now; pass --allow-owner-references to go on",
			english.PluralHave(n, "object"), r.expected.Group, version, r.expected.Kind)
	}
	if r.plan.Intent.Verb == v1alpha1.VerbRescue {
		found.Unknown = slices.DeleteFunc(found.Unknown, func(u usage.UnknownResource) bool {
			return u.Lost && u.Name != r.expected.Name
		})
	}
	if !found.Complete() {
		return refusef("not all resources could be searched for ownerReferences to %s, the first is %s: %s; pass --allow-owner-references to go on",
			version, found.Unknown[0].Name, found.Unknown[0].Message)
	}
	return nil
}

// noReferences looks, before a brownout begins, for children that the garbage
// collector would delete. Where they are allowed, how many there are is remembered.
func (r *run) noReferences(ctx context.Context, version string, effects *effects) error {
	found, err := r.references(ctx, version)
	if !r.plan.Intent.AllowOwnerReferences {
		if err != nil {
			return err
		}
		if err := r.refuseReferences(version, found); err != nil {
			return err
		}
	}
	if effects.references == nil && err == nil {
		effects.references = countReferences(found)
	}
	return nil
}

func countReferences(found usage.OwnerReferencesResult) map[schema.GroupResource]usage.ReferencingResource {
	counts := map[schema.GroupResource]usage.ReferencingResource{}
	for _, one := range found.Resources {
		counts[one.GroupResource()] = one
	}
	return counts
}

// referenced says which children came, and which went, since the first brownout began:
// the garbage collector may have deleted them, or will while the version is not served.
func (e *effects) referenced(ctx context.Context, affected func(schema.GroupResource, string, string, ...any)) {
	const what = "ownerReferences"
	if e.references == nil {
		e.unread = append(e.unread, what+": they could not be searched before")
		return
	}
	found, err := e.run.references(ctx, e.run.step.Version)
	switch {
	case err != nil:
		e.unread = append(e.unread, what+": "+err.Error())
		return
	case !found.Complete():
		e.unread = append(e.unread, fmt.Sprintf("%s of %s: %s", what, found.Unknown[0].Name, found.Unknown[0].Message))
	}
	e.watched = append(e.watched, what)
	now := countReferences(found)
	unknown := func(resource schema.GroupResource) bool {
		return slices.ContainsFunc(found.Unknown, func(u usage.UnknownResource) bool { return u.Name == resource.String() })
	}
	for resource, before := range e.references {
		if n := before.Objects - now[resource].Objects; n > 0 && !unknown(resource) {
			affected(resource, strings.Join(before.Examples, ", "), "%d of %d with an ownerReference to %s are gone", n, before.Objects, e.run.step.Version)
		}
	}
	for resource, after := range now {
		if n := after.Objects - e.references[resource].Objects; n > 0 {
			affected(resource, strings.Join(after.Examples, ", "), "%d more than before have an ownerReference to %s", n, e.run.step.Version)
		}
	}
}

package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// settleTimeout is how long the server may take to show a change of the CRD in
// discovery, in its handlers and in its warnings.
const settleTimeout = 30 * time.Second

// settle returns how long that is in this run.
func (r *run) settle() time.Duration { return cmp.Or(r.Settle, settleTimeout) }

// eventually waits until check holds and returns what it said last if it never does.
// check has to be a matter of moments: its context ends with the waiting.
func (r *run) eventually(ctx context.Context, what string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, r.settle(), true,
		func(ctx context.Context) (bool, error) {
			last = check(ctx)
			return last == nil, nil
		})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("waiting until %s: %w", what, context.Cause(ctx))
	case last == nil:
		last = err
	}
	return fmt.Errorf("the CRD was patched, but after %s it is not seen that %s: %w", r.settle(), what, last)
}

// resource returns the CRD's resource at a version.
func (r *run) resource(version string) schema.GroupVersionResource {
	c := r.plan.Target.CRD
	return schema.GroupVersionResource{Group: c.Group, Version: version, Resource: c.Resource}
}

// readable makes sure that the objects can be listed at a version.
func (r *run) readable(ctx context.Context, version string) error {
	// One page is enough to see that the handler is there; a limit makes the
	// server give the cause of a failure instead of a 429 (fact 14).
	_, err := r.Cluster.Objects(r.resource(version)).ListMetadata(ctx, cluster.PageOptions{Limit: 1})
	return err
}

// listed makes sure that discovery has a version, or has it no longer.
func (r *run) listed(ctx context.Context, version string, want bool) error {
	versions, _, err := r.Cluster.Discovery().GroupVersions(ctx, r.plan.Target.CRD.Group)
	if err != nil {
		return err
	}
	if slices.Contains(versions, version) == want {
		return nil
	}
	// Another CRD of the group may serve the version: then only the resource is gone.
	hash, err := r.Cluster.Discovery().StorageVersionHash(ctx, r.resource(version))
	if !want && (err != nil || hash == "") {
		return nil
	}
	return fmt.Errorf("discovery of %s has %s", r.plan.Target.CRD.Group, strings.Join(versions, ", "))
}

// checkSpec verifies a step that changed the spec, from the answer of the
// server and from what it serves.
func (r *run) checkSpec(ctx context.Context, after *apiextensionsv1.CustomResourceDefinition, result *v1alpha1.StepReport) error {
	version := r.step.Version
	i := slices.IndexFunc(after.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version })
	if i < 0 {
		return fmt.Errorf("the server took the patch, but %s is not in spec.versions", version)
	}
	entry := after.Spec.Versions[i]
	switch r.step.Action {
	case v1alpha1.ActionAdd:
		return r.checkStructural(ctx, version)
	case v1alpha1.ActionServe:
		return r.eventually(ctx, version+" is served", func(ctx context.Context) error {
			return cmp.Or(r.listed(ctx, version, true), r.readable(ctx, version))
		})
	case v1alpha1.ActionSetStorage:
		if !entry.Storage || !slices.Contains(after.Status.StoredVersions, version) {
			return fmt.Errorf("the server took the patch, but %s is not the storage version in status.storedVersions %v",
				version, after.Status.StoredVersions)
		}
		return nil
	default:
		return r.checkWarning(ctx, entry, result)
	}
}

// checkStructural waits for the server's verdict on the schema of a new version.
func (r *run) checkStructural(ctx context.Context, version string) error {
	return r.eventually(ctx, "the schema of "+version+" is accepted", func(ctx context.Context) error {
		c, err := r.Cluster.CRDs().Get(ctx, r.expected.Name)
		if err != nil {
			return err
		}
		for _, condition := range c.Status.Conditions {
			if condition.Type == apiextensionsv1.NonStructuralSchema && condition.Status == apiextensionsv1.ConditionTrue {
				return errors.New(condition.Message)
			}
		}
		return nil
	})
}

// checkWarning makes a request at the version, as a client would, and compares
// the Warning header with what the CRD says now.
func (r *run) checkWarning(ctx context.Context, entry apiextensionsv1.CustomResourceDefinitionVersion, result *v1alpha1.StepReport) error {
	if !entry.Served {
		return nil
	}
	want := ""
	if entry.DeprecationWarning != nil {
		want = *entry.DeprecationWarning
	}
	return r.eventually(ctx, "clients of "+entry.Name+" get the right warning", func(ctx context.Context) error {
		got, err := r.Cluster.Warnings(ctx, r.resource(entry.Name))
		if err != nil && ctx.Err() == nil && len(got) == 0 && cluster.Explain(err).Reason == cluster.ReasonConversionFailed {
			// The CRD is as it should be; that the conversion webhook is down, so that
			// nothing can be listed, is not this step's to mend.
			result.Message = "the CRD was changed, but what clients get could not be seen: " + cluster.Explain(err).Message
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case !entry.Deprecated && len(got) == 0:
			result.Message = "clients get no warning"
			return nil
		case entry.Deprecated && want == "" && len(got) > 0, entry.Deprecated && slices.Contains(got, want):
			result.Message = "clients get: Warning: 299 - " + fmt.Sprintf("%q", strings.Join(got, "; "))
			return nil
		}
		return fmt.Errorf("warnings are %q", got)
	})
}

// unserve looks for owner references once more, patches, and sees that the
// version is gone and the objects are not.
func (r *run) unserve(ctx context.Context, left []v1alpha1.Step, result *v1alpha1.StepReport) error {
	version := r.step.Version
	if !r.plan.Intent.AllowOwnerReferences {
		if err := r.checkReferences(ctx, version); err != nil {
			return err
		}
	}
	if err := r.gated(ctx, left, result); err != nil {
		return err
	}
	after, err := r.patchCRD(ctx, left)
	if err != nil {
		return err
	}
	for _, v := range after.Spec.Versions {
		if v.Name == version && v.Served {
			return fmt.Errorf("the server took the patch, but %s is still served", version)
		}
	}
	if r.rehearsal != nil {
		r.guards(after, *r.rehearsal)
	}
	return r.eventually(ctx, version+" is no longer served", func(ctx context.Context) error {
		return cmp.Or(r.listed(ctx, version, false), r.readable(ctx, endpoint(after)))
	})
}

// gated asks the gates of a retirement again, immediately before a version is no
// longer served.
func (r *run) gated(ctx context.Context, left []v1alpha1.Step, result *v1alpha1.StepReport) error {
	note, err := r.checkUse(ctx)
	if err != nil {
		return err
	}
	result.Message = note
	found, err := r.current(ctx, left)
	if err != nil {
		return err
	}
	return r.soaked(ctx, found, v1alpha1.SoakDeprecated)
}

// endpoint returns the version to reach objects through: the storage version
// when it is served, otherwise any served one.
func endpoint(c *apiextensionsv1.CustomResourceDefinition) string {
	best := ""
	for _, v := range c.Spec.Versions {
		if v.Served && (v.Storage || best == "") {
			best = v.Name
		}
	}
	return best
}

// trim removes entries from status.storedVersions, but only with the proof of
// this run that nothing is stored at them, and only on the CRD that the proof
// is about (rules 3 and 5).
func (r *run) trim(ctx context.Context, left []v1alpha1.Step) error {
	if !r.proven() {
		return refusef("no complete verify pass in this run: status.storedVersions is not trimmed")
	}
	if err := r.etcdAgrees(ctx); err != nil {
		return err
	}
	after, err := r.patchCRD(ctx, left)
	if err != nil {
		return err
	}
	if got := after.Status.StoredVersions; len(got) != 1 || got[0] != r.step.Version {
		return fmt.Errorf("the server took the patch, but status.storedVersions is %v", got)
	}
	return nil
}

// remove takes a version out of spec.versions and reads every object
// afterwards.
func (r *run) remove(ctx context.Context, left []v1alpha1.Step) error {
	version := r.step.Version
	switch {
	case r.verified == nil || !r.verified.Complete || !r.verifiesAll():
		return refusef("no complete verify pass in this run: %s is not removed", version)
	case !r.cleaned:
		return refusef("managedFields were not cleaned in this run: %s is not removed", version)
	case slices.Contains(r.expected.StoredVersions, version):
		return refusef("%s is still in status.storedVersions", version)
	}
	if err := r.etcdAgrees(ctx); err != nil {
		return err
	}
	before, err := r.current(ctx, left)
	if err != nil {
		return err
	}
	if err := r.soaked(ctx, before, v1alpha1.SoakUnserved); err != nil {
		return err
	}
	after, err := r.patchCRD(ctx, left)
	if err != nil {
		return err
	}
	for _, v := range after.Spec.Versions {
		if v.Name == version {
			return fmt.Errorf("the server took the patch, but %s is still in spec.versions", version)
		}
	}
	r.removed = true
	return r.readWithout(ctx, before, after, version)
}

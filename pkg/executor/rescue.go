package executor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// listStored adds versions to status.storedVersions and makes sure that with
// them every object can be listed. What else is found in the way ends the run:
// the plan did not tell what to do about it.
func (r *run) listStored(ctx context.Context, left []v1alpha1.Step) error {
	want := strings.Split(r.step.Version, ", ")
	found, err := r.current(ctx, left)
	if err != nil {
		return err
	}
	for _, version := range want {
		if (crd.CRD{CustomResourceDefinition: found}).Version(version) == nil {
			return refusef("%s is not in spec.versions: somebody removed it again", version)
		}
	}
	after, err := r.patchCRD(ctx, left)
	if err != nil {
		return err
	}
	for _, version := range want {
		if !slices.Contains(after.Status.StoredVersions, version) {
			return fmt.Errorf("the server took the patch, but status.storedVersions is %v", after.Status.StoredVersions)
		}
	}
	var stop error
	err = r.readAll(ctx, r.step.Endpoint, func(err error) error {
		stop = r.otherwiseUnreadable(err, after)
		return stop
	})
	if err != nil && stop == nil {
		return fmt.Errorf("status.storedVersions was changed, but not every object was read since: %w", err)
	}
	return err
}

// otherwiseUnreadable tells which objects an error names that the versions which
// the CRD has by now do not make readable.
func (r *run) otherwiseUnreadable(err error, now *apiextensionsv1.CustomResourceDefinition) error {
	c := crd.CRD{CustomResourceDefinition: now}
	var versions []string
	for _, object := range cluster.Unreadable(err) {
		version, own := strings.CutPrefix(object.GroupVersion, c.Spec.Group+"/")
		switch {
		case own && c.Version(version) == nil:
			if !slices.Contains(versions, version) {
				versions = append(versions, version)
			}
		case !object.Conversion:
			return refusef("the object %s cannot be decoded at all: %s; nothing was rewritten", object.Key, object.Message)
		}
	}
	if len(versions) == 0 {
		return nil
	}
	return &partialError{fmt.Sprintf("objects are also stored at %s, which was not known when the plan was made; "+
		"nothing was rewritten, and running again adds that too", strings.Join(versions, ", "))}
}

// roundTripRescued sends live objects through the conversion webhook from the
// versions that a rescue added to the endpoint and back.
func (r *run) roundTripRescued(ctx context.Context, c crd.CRD) error {
	if c.ConversionStrategy() != apiextensionsv1.WebhookConverter {
		return nil
	}
	for _, version := range lifecycle.Rescued(c) {
		if !c.Version(version).Served || version == r.step.Endpoint {
			continue
		}
		if err := r.trip(ctx, c, version); err != nil {
			return err
		}
	}
	return nil
}

// stopServing takes the steps of a rescue that end the service of the versions,
// where the rehearsal, or the first read at one of them, ends the run: they were
// served for that only.
func (r *run) stopServing(ctx context.Context, left []v1alpha1.Step, ended error) error {
	serves := r.step.Action == v1alpha1.ActionServe || r.step.Action == v1alpha1.ActionRehearse
	if ended == nil || r.plan.Intent.Verb != v1alpha1.VerbRescue || !serves {
		return ended
	}
	// An interrupt ends the run, but the plan promised this whatever ends it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), serveTimeout)
	defer cancel()
	rehearsal := r.step
	defer func() { r.step = rehearsal }()
	for i := range left {
		if left[i].Action != v1alpha1.ActionUnserve {
			continue
		}
		if found, err := r.Cluster.CRDs().Get(ctx, r.expected.Name); err == nil {
			// The run may have ended before it served this one.
			v := (crd.CRD{CustomResourceDefinition: found}).Version(left[i].Version)
			if v == nil || !v.Served {
				continue
			}
		}
		r.step = &left[i]
		if err := r.unserve(ctx, left[i:], &v1alpha1.StepReport{}); err != nil {
			return fmt.Errorf("%w; ending the service of %s: %w", ended, r.step.Version, err)
		}
	}
	return ended
}

package executor

import (
	"context"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/conversion/roundtrip"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/plan"
)

// roundTrip sends live objects through the conversion webhook to a version that
// this run began to serve, and back: the plan could not, and a rewrite would make
// a loss final.
func (r *run) roundTrip(ctx context.Context, c crd.CRD) error {
	began := slices.ContainsFunc(r.plan.Steps, func(s v1alpha1.Step) bool {
		return s.Action == v1alpha1.ActionServe && s.Version == r.step.Endpoint
	})
	if !began || c.ConversionStrategy() != apiextensionsv1.WebhookConverter {
		return nil
	}
	for _, from := range r.rehearsal.CompareVersions {
		if from == r.step.Endpoint {
			continue
		}
		if err := r.trip(ctx, c, from); err != nil {
			return err
		}
	}
	return nil
}

// trip sends live objects from a version to the endpoint and back.
func (r *run) trip(ctx context.Context, c crd.CRD, from string) error {
	trip, err := roundtrip.Run(ctx, r.Cluster, roundtrip.ForMigration(c, from, *r.rehearsal))
	if err != nil {
		return fmt.Errorf("sending objects through the conversion webhook: %w", err)
	}
	if !roundtrip.Whole(trip, *r.rehearsal) {
		r.warn("what the conversion webhook loses was tried on %d of %s: --rehearse-all takes every one", trip.Objects, english.Plural(trip.Total, "object"))
	}
	for _, open := range trip.Open {
		r.warn("what the conversion webhook loses is not known: %s", open)
	}
	if lost, _ := plan.Lossy(r.plan.Intent, c.Name, roundtrip.Lost(trip)); len(lost) > 0 {
		return refusef("the conversion to %s and back loses or changes %s, the first is %s in %s; "+
			"kubectl crdver roundtrip %s shows each", r.step.Endpoint, english.Plural(len(lost), "field path"), lost[0].Path, english.Plural(lost[0].Objects, "object"), c.Name)
	}
	return nil
}

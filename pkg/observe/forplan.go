package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/plan"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// PlanOptions says how to look at what a plan needs.
type PlanOptions struct {
	// Writes allows requests with dryRun=All, for the rehearsal and for the
	// patches of the plan. Without, only reading requests are made.
	Writes      bool
	Concurrency int
	// Retry are the objects that a plan with Intent.Retry sends again.
	Retry []cluster.ObjectID
	// Progress, if not nil, is told how far the rehearsal is.
	Progress func(done, total int64)
}

// ForPlan looks at what the steps of a plan depend on: permissions, references
// to a version that will no longer be served, a rehearsal of the rewrite, and
// what the server says to the patches. It returns an error where the server did not
// answer to these: that is no refusal.
func (o *Observer) ForPlan(
	ctx context.Context, c crd.CRD, p v1alpha1.Plan, observations *lifecycle.Observations, options PlanOptions,
) error {
	if len(p.Steps) == 0 {
		return nil
	}
	o.access(ctx, p, observations)
	if slices.ContainsFunc(p.Steps, func(s v1alpha1.Step) bool {
		return s.Action == v1alpha1.ActionMigrate || s.Action == v1alpha1.ActionInTreeMigrate
	}) {
		o.webhooks(ctx, c, observations)
		o.roundTrip(ctx, observations)
	}
	if options.Writes && c.ConversionStrategy() == apiextensionsv1.WebhookConverter {
		o.lostConversion(ctx, c, observations)
	}
	for _, step := range p.Steps {
		switch {
		case (step.Action == v1alpha1.ActionUnserve || step.Action == v1alpha1.ActionBrownout) && !p.Intent.AllowOwnerReferences:
			observations.References = merged(observations.References, o.references(ctx, c, p, step.Version))
		case step.Action == v1alpha1.ActionRehearse && options.Writes && len(observations.MissingRules) == 0 && observations.LostVersion == "":
			if err := o.rehearsal(ctx, c, p.Intent, step.Endpoint, observations, options); err != nil {
				return err
			}
		}
	}
	o.selected(ctx, c, p.Intent, observations)
	// A plan that is blocked already says more than the server's refusal would.
	if options.Writes && p.Applyable && len(observations.MissingRules) == 0 {
		return o.patches(ctx, c, p, observations)
	}
	return nil
}

// access reviews the caller's own permissions.
func (o *Observer) access(ctx context.Context, p v1alpha1.Plan, observations *lifecycle.Observations) {
	var rules []cluster.Rule
	for _, rule := range plan.Rules(p) {
		rules = append(rules, cluster.Rule{
			Verb: rule.Verb, Group: rule.Group, Resource: rule.Resource, Subresource: rule.Subresource, Name: rule.Name,
		})
	}
	missing, err := o.cluster.MissingRules(ctx, rules)
	switch {
	case errors.Is(err, cluster.ErrNotSupported):
		// A server without an authorization API does not authorize.
	case err != nil:
		observations.AccessError = err.Error()
	}
	for _, rule := range missing {
		observations.MissingRules = append(observations.MissingRules, plan.Rule{
			Verb: rule.Verb, Group: rule.Group, Resource: rule.Resource, Subresource: rule.Subresource, Name: rule.Name,
		}.String())
	}
}

// webhooks looks for the admission webhooks that a rewrite passes.
func (o *Observer) webhooks(ctx context.Context, c crd.CRD, observations *lifecycle.Observations) {
	found, err := o.cluster.AdmissionWebhooks(ctx, schema.GroupVersionResource{
		Group: c.Spec.Group, Version: c.StorageVersion(), Resource: c.Spec.Names.Plural,
	})
	switch {
	case errors.Is(err, cluster.ErrNotSupported):
		// A server without an API for webhooks has none.
	case err != nil:
		observations.WebhooksError = cluster.Explain(err).Message
	}
	for _, webhook := range found {
		observations.Webhooks = append(observations.Webhooks, webhook.String())
		if webhook.Status {
			observations.StatusWebhooks = append(observations.StatusWebhooks, webhook.String())
		}
	}
}

// merged adds the references to another version.
func merged(references, more *lifecycle.References) *lifecycle.References {
	if references == nil {
		return more
	}
	references.Version += ", " + more.Version
	references.Unreadable = more.Unreadable // Of the same look.
	references.Owners = append(references.Owners, more.Owners...)
	references.Unknown = append(references.Unknown, more.Unknown...)
	return references
}

// references looks for children that name the version (fact 16).
func (o *Observer) references(ctx context.Context, c crd.CRD, p v1alpha1.Plan, version string) *lifecycle.References {
	references := &lifecycle.References{Version: version}
	found, err := usage.OwnerReferences(ctx, o.cluster, schema.GroupVersionKind{
		Group: c.Spec.Group, Version: version, Kind: c.Spec.Names.Kind,
	})
	if err != nil {
		references.Unknown = append(references.Unknown, err.Error())
		return references
	}
	for _, r := range found.Resources {
		references.Owners = append(references.Owners, lifecycle.OwnerReferences{
			Resource: r.GroupResource().String(), Count: r.Objects, Examples: r.Examples,
		})
	}
	for _, u := range found.Unknown {
		if u.Lost && p.Intent.Verb == v1alpha1.VerbRescue {
			// Those of this CRD are looked at again before the version is unserved.
			if u.Name != c.Name {
				references.Unreadable = append(references.Unreadable, u.Name)
			}
			continue
		}
		references.Unknown = append(references.Unknown, fmt.Sprintf("%s: %s: %s", u.Name, u.Reason, u.Message))
	}
	return references
}

// rehearsal dry-runs the rewrite, if the version is served already; otherwise
// the executor does once it is.
func (o *Observer) rehearsal(
	ctx context.Context, c crd.CRD, intent v1alpha1.Intent, endpoint string,
	observations *lifecycle.Observations, options PlanOptions,
) error {
	if v := c.Version(endpoint); v == nil || !v.Served {
		return nil
	}
	rehearse := conversion.ForMigration(c, endpoint)
	rehearse.Every = rehearse.Every || intent.RehearseAll
	rehearse.Concurrency, rehearse.Subresource, rehearse.Progress = options.Concurrency, intent.Path, options.Progress
	rehearse.Namespace, rehearse.LabelSelector = intent.Namespace, intent.Selector
	if intent.Retry != nil {
		rehearse.Named = append([]cluster.ObjectID{}, options.Retry...)
	}
	if rehearse.RefusedThrough = intent.RefusedThrough; intent.Verb == v1alpha1.VerbMigrate || intent.Verb == v1alpha1.VerbPromote {
		rehearse.Offer = conversion.Detours(c, endpoint)
	}
	var err error
	if rehearse.Filter, err = plan.InShard(intent); err != nil {
		observations.RehearsalError = err.Error()
		return nil
	}
	result, err := conversion.Rehearse(ctx, o.cluster, rehearse)
	if cluster.Unanswered(err) {
		return fmt.Errorf("rehearsing the rewrite: %w", err)
	}
	if err != nil {
		observations.RehearsalError, observations.LostVersion = explain(c, err), lostVersion(c, err)
		return nil
	}
	observations.Rehearsal = result
	if c.ConversionStrategy() == apiextensionsv1.WebhookConverter {
		rehearse.FieldManager = lifecycle.FieldManager
		return o.webhookEvidence(ctx, c, rehearse, result.Total, observations)
	}
	return nil
}

// patches sends the plan's patches with dryRun=All, so that a policy or a
// webhook that guards CRDs speaks up before anything is written. The patches of
// the spec are sent one on top of the other, as the steps will leave it.
func (o *Observer) patches(ctx context.Context, c crd.CRD, p v1alpha1.Plan, observations *lifecycle.Observations) error {
	var spec []v1alpha1.PatchOperation
	for _, step := range p.Steps {
		if step.Patch == nil || step.Action == v1alpha1.ActionRemove && stored(c, step.Version) {
			// The server refuses a removal until the trim is done (fact 7).
			continue
		}
		patch := *step.Patch
		if patch.Subresource == "" {
			spec = append(slices.Clone(spec), patch.Body...)
			patch.Body = spec
		}
		body, err := plan.Body(patch, c)
		if err == nil {
			err = cluster.Retry(ctx, func() error {
				_, err := o.cluster.CRDs().Patch(ctx, c.Name, cluster.PatchRequest{
					Type: types.JSONPatchType, Body: body, Subresource: patch.Subresource, DryRun: true,
					FieldManager: lifecycle.FieldManager,
				})
				return err
			})
		}
		switch {
		case err == nil, apierrors.IsConflict(err):
		case cluster.Unanswered(err):
			return fmt.Errorf("asking the server about the step %s (dry run): %w", step.ID, err)
		default:
			observations.Denied = append(observations.Denied, lifecycle.Denial{Step: step.ID, Message: err.Error()})
			return nil
		}
	}
	return nil
}

// stored reports whether status.storedVersions lists a version, or will by then.
func stored(c crd.CRD, version string) bool {
	return slices.Contains(c.Status.StoredVersions, version) || c.StorageVersion() == version
}

package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/preflight"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// objectsPageSize keeps a page of whole objects at a few megabytes.
const objectsPageSize = 250

// maxUsers is how many managers of a version are told.
const maxUsers = 5

// PreflightOptions say how to look at what a manifest would replace.
type PreflightOptions struct {
	// Sample is how many objects to hold against the new schema; 0 means all.
	Sample int64
	// DryRun asks the server with dryRun=All what it says to the update.
	DryRun bool
	// FieldManager is that of the dry run.
	FieldManager string
}

// ForPreflight looks at what a manifest would replace, and puts what it sees into
// the input. It returns the State of the live CRD, or nil if there is none.
func (o *Observer) ForPreflight(ctx context.Context, next crd.CRD, options PreflightOptions, input *preflight.Input) (*lifecycle.State, error) {
	live, err := o.cluster.CRDs().Get(ctx, next.Name)
	if apierrors.IsNotFound(err) {
		if options.DryRun {
			input.Admission = o.dryRun(ctx, nil, next, options)
		}
		return nil, nil //nolint:nilnil // No CRD is an answer.
	}
	if err != nil {
		return nil, err
	}
	one := crd.Live(live)
	state := lifecycle.New(one, o.Observe(ctx, one, Options{Migrations: true, Objects: true}))
	input.Users = o.users(ctx, state, next)
	if input.Objects, err = o.evidence(ctx, state, next, options.Sample); err != nil {
		return nil, err
	}
	if options.DryRun {
		input.Admission = o.dryRun(ctx, live, next, options)
	}
	return &state, nil
}

// users finds who wrote objects at the versions that clients lose, and at all that
// the manifest removes: managedFields name a version long after it was unserved.
func (o *Observer) users(ctx context.Context, state lifecycle.State, next crd.CRD) map[string]preflight.Users {
	users := map[string]preflight.Users{}
	at := state.Endpoint()
	for i := range state.CRD.Spec.Versions {
		version, served := state.CRD.Spec.Versions[i].Name, state.CRD.Spec.Versions[i].Served
		if after := next.Version(version); at == "" || after != nil && (after.Served || !served) {
			continue
		}
		resource := schema.GroupVersionResource{Group: state.CRD.Spec.Group, Version: at, Resource: state.CRD.Spec.Names.Plural}
		found, err := usage.ManagedFieldsReferences(ctx, o.cluster, resource, version)
		if err != nil {
			users[version] = preflight.Users{Error: explain(state.CRD, err)}
			continue
		}
		one := preflight.Users{Objects: found.Objects}
		for i, manager := range found.Managers {
			if i == maxUsers {
				one.Managers = append(one.Managers, fmt.Sprintf("and %d more", len(found.Managers)-maxUsers))
				break
			}
			last := ""
			if manager.Last != nil {
				last = ", last " + manager.Last.UTC().Format("2006-01-02")
			}
			one.Managers = append(one.Managers, fmt.Sprintf("%s (%d%s)", manager.Manager, manager.Objects, last))
		}
		users[version] = one
	}
	return users
}

// evidence holds live objects against the schemas of the manifest.
func (o *Observer) evidence(ctx context.Context, state lifecycle.State, next crd.CRD, sample int64) (*preflight.Evidence, error) {
	check, err := preflight.NewCheck(state, next)
	if err != nil {
		// A schema that cannot be used is refused by the server, too.
		return nil, nil //nolint:nilerr,nilnil // As above; it is reported as a refusal.
	}
	if check == nil {
		return nil, nil //nolint:nilnil // Nothing to look at.
	}
	objects := o.cluster.Objects(schema.GroupVersionResource{
		Group: state.CRD.Spec.Group, Version: check.Version, Resource: state.CRD.Spec.Names.Plural,
	})
	var total *int64
	if count, exact, err := objects.Count(ctx); err == nil && exact {
		total = &count
	}
	checked := int64(0)
	request := cluster.PageOptions{Limit: objectsPageSize}
	for {
		if sample > 0 {
			request.Limit = min(objectsPageSize, sample-checked)
		}
		var page *unstructured.UnstructuredList
		err := cluster.Retry(ctx, func() (err error) {
			page, err = objects.List(ctx, request)
			return err
		})
		if token, expired := cluster.InconsistentContinue(err); expired {
			request.Continue = token
			continue
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("reading the objects of %s: %w", state.CRD.Name, ctx.Err())
		}
		if err != nil {
			return check.Result(total, false, explain(state.CRD, err)), nil
		}
		for i := range page.Items {
			check.Add(ctx, page.Items[i].Object)
			checked++
		}
		request.Continue = page.GetContinue()
		if request.Continue == "" {
			return check.Result(total, true, ""), nil
		}
		if sample > 0 && checked >= sample {
			return check.Result(total, false, ""), nil
		}
	}
}

// dryRun asks the server what it says to the manifest: with the spec of the live
// CRD replaced, and the manifest's labels and annotations added, which policies
// look at.
func (o *Observer) dryRun(ctx context.Context, live *apiextensionsv1.CustomResourceDefinition, next crd.CRD, options PreflightOptions) *preflight.Admission {
	var err error
	if live == nil {
		err = o.cluster.CRDs().DryRunCreate(ctx, next.CustomResourceDefinition, options.FieldManager)
	} else {
		var body []byte
		if body, err = replaceSpec(live, next); err == nil {
			_, err = o.cluster.CRDs().Patch(ctx, next.Name, cluster.PatchRequest{
				Type: types.JSONPatchType, Body: body, DryRun: true, FieldManager: options.FieldManager,
			})
		}
	}
	if err == nil {
		return &preflight.Admission{}
	}
	failure := cluster.Explain(err)
	switch {
	case strings.Contains(failure.Message, "does not support dry run"), failure.Reason == cluster.ReasonForbidden,
		failure.Reason == cluster.ReasonUnavailable, ctx.Err() != nil:
		return &preflight.Admission{Unknown: failure.Message}
	default:
		return &preflight.Admission{Denied: failure.Message, By: failure.Name, Validation: failure.Reason == cluster.ReasonInvalid}
	}
}

// replaceSpec returns the JSON patch that replaces the spec.
func replaceSpec(live *apiextensionsv1.CustomResourceDefinition, next crd.CRD) ([]byte, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	patch := []operation{
		{"test", "/metadata/uid", live.UID},
		{"replace", "/spec", next.Spec},
	}
	for _, added := range []struct {
		path      string
		old, with map[string]string
	}{
		{"/metadata/labels", live.Labels, next.Labels},
		{"/metadata/annotations", live.Annotations, next.Annotations},
	} {
		if len(added.with) == 0 {
			continue
		}
		merged := maps.Clone(added.old)
		if merged == nil {
			merged = map[string]string{}
		}
		for _, key := range slices.Sorted(maps.Keys(added.with)) {
			merged[key] = added.with[key]
		}
		patch = append(patch, operation{"add", added.path, merged})
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("building the dry run: %w", err)
	}
	return body, nil
}

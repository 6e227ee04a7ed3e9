package plan

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// PathStatus is the path of an intent whose objects are rewritten through their
// status subresource.
const PathStatus = "status"

const blockNoStatus = "path-status"

// NotBeforeShards says why no namespaces go first where the objects are divided, and
// what to do instead.
const NotBeforeShards = "the other parts do not wait for these namespaces, and would go on if an object in them failed; " +
	"migrate each of them beforehand, with --namespace, and then the parts"

// checkRewrite checks what the intent says of how objects are rewritten; it may
// come from a file.
func (b *builder) checkRewrite() error {
	if b.intent.Path != "" && b.intent.Path != PathStatus {
		return inputErrorf("unknown path %q in the intent: it is %q, or left out", b.intent.Path, PathStatus)
	}
	if b.inTree() && (b.intent.Path != "" || len(b.intent.NamespacesFirst) > 0) {
		return inputErrorf("the cluster's own controller knows neither --path nor --namespaces-first: leave them out, or --engine %s", b.intent.Engine)
	}
	if len(b.intent.NamespacesFirst) == 0 {
		return nil
	}
	switch {
	case slices.Contains(b.intent.NamespacesFirst, ""):
		return inputErrorf("--namespaces-first has an empty name")
	case b.state.CRD.Spec.Scope == apiextensionsv1.ClusterScoped:
		return inputErrorf("the objects of %s are in no namespace: --namespaces-first does not fit", b.state.CRD.Name)
	case b.intent.Retry != nil:
		return inputErrorf("--namespaces-first does not fit --retry-from: the report names the objects")
	case b.intent.Shard != "":
		return inputErrorf("--namespaces-first does not fit --shard: %s", NotBeforeShards)
	case b.intent.Namespace != "":
		return inputErrorf("--namespaces-first does not fit a migration of the namespace %s alone", b.intent.Namespace)
	}
	return nil
}

// path returns what objects are rewritten through, for people. It blocks where the
// version has no such path.
func (b *builder) path(endpoint string) string {
	if b.intent.Path == "" {
		return endpoint
	}
	v := b.after.Version(endpoint)
	if v != nil && (v.Subresources == nil || v.Subresources.Status == nil) {
		b.block(v1alpha1.Blocker{
			ID:      blockNoStatus,
			Message: fmt.Sprintf("%s has no status subresource: objects cannot be rewritten through it", endpoint),
			Resolve: "leave --path out",
		})
	}
	return endpoint + "/" + b.intent.Path
}

// statusWarning says what --path status does not pass by.
func (b *builder) statusWarning() {
	o := b.state.Observations
	if len(o.StatusWebhooks) > 0 {
		b.warn("--path %s does not pass by the admission webhooks %s, which are called for %s/status, too",
			PathStatus, strings.Join(o.StatusWebhooks, ", "), b.state.CRD.Spec.Names.Plural)
	}
	if b.has(v1alpha1.ActionCleanManagedFields) {
		b.warn("managedFields entries are moved through the objects themselves, not through their status: webhooks and policies for %s have to let that pass",
			b.state.CRD.Spec.Names.Plural)
	}
	b.warn("--path %s passes by webhooks and policies for %s; it does not pass by those whose rules name %s/status, %s/* or */*, "+
		"nor by the schema, nor by conversion", PathStatus, b.state.CRD.Spec.Names.Plural, b.state.CRD.Spec.Names.Plural, b.state.CRD.Spec.Names.Plural)
}

// migrateChecks are those after the rewrite.
func (b *builder) migrateChecks() []v1alpha1.Check {
	checks := []v1alpha1.Check{{ID: "all-pages", Description: "every page of the list was seen, and no object failed"}}
	if len(b.intent.NamespacesFirst) == 0 {
		return checks
	}
	return append([]v1alpha1.Check{{
		ID: "namespaces-first", Description: fmt.Sprintf("no object in %s failed; otherwise the rest is left alone", join(b.intent.NamespacesFirst)),
	}}, checks...)
}

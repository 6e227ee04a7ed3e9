package executor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/plan"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration/intree"
)

// putBackPatch returns the patch with which the plan puts status.storedVersions
// back, or nil where it does not.
func (r *run) putBackPatch() *v1alpha1.Patch {
	for _, step := range r.plan.Steps {
		if step.SVM != nil && step.SVM.PutBack != nil {
			return step.SVM.PutBack
		}
	}
	return nil
}

// serverTrimmed reports whether all that changed of the CRD is that the in-tree
// controller trimmed status.storedVersions, which the plan expects.
func (r *run) serverTrimmed(c *apiextensionsv1.CustomResourceDefinition) bool {
	now := identify(c)
	if r.putBackPatch() == nil || !lifecycle.ServerTrimmed(c, r.expected.StoredVersions) {
		return false
	}
	now.StoredVersions = r.expected.StoredVersions
	planned, found := r.plan.Target, r.plan.Target
	planned.CRD, found.CRD = r.expected, now
	return plan.Stale(planned, found) == ""
}

// restoreStored lists again what the server trimmed: nothing is proven yet, and a
// version that is not listed may be dropped with objects still stored at it.
func (r *run) restoreStored(ctx context.Context, c *apiextensionsv1.CustomResourceDefinition) error {
	if r.restored.done == maxConflicts {
		return refusef("the server trims status.storedVersions again and again: put back %d times", maxConflicts)
	}
	patch := plan.StoredPatch(r.expected.StoredVersions)
	body, err := plan.Body(*patch, c)
	if err != nil {
		return err
	}
	// The field manager is another one than that of a trim, which stands for a proof.
	after, err := r.Cluster.CRDs().Patch(ctx, c.Name, cluster.PatchRequest{
		Type: types.JSONPatchType, Body: body, Subresource: patch.Subresource, FieldManager: lifecycle.PutBackManager,
	})
	if apierrors.IsConflict(err) || ctx.Err() == nil && (cluster.Transient(err) || cluster.Unanswered(err)) {
		// Somebody wrote the CRD meanwhile, or it was this, or the server is too busy: the
		// migration that trimmed is what keeps it busy. It is read again, and tried for as
		// long as a read would be: whoever gives up leaves a list that says too little.
		if err := r.restored.wait(ctx, err, r.time().Time); err != nil {
			return fmt.Errorf("putting status.storedVersions back to %v: %w; run again to put it back", r.expected.StoredVersions, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("putting status.storedVersions back to %v: %w", r.expected.StoredVersions, err)
	}
	r.restored = restored{done: r.restored.done + 1}
	if got := after.Status.StoredVersions; !slices.Equal(got, r.expected.StoredVersions) {
		return fmt.Errorf("the server took the patch, but status.storedVersions is %v", got)
	}
	r.warn("the server trimmed status.storedVersions to %v before the objects were verified: put back %v",
		c.Status.StoredVersions, after.Status.StoredVersions)
	return nil
}

// restored is how often the server's trim was put right, and what was tried in vain
// since.
type restored struct {
	done, tries int
	since       time.Time
}

// wait waits before the next try after one that failed, and gives up with its error in
// the end.
func (p *restored) wait(ctx context.Context, err error, now time.Time) error {
	if p.tries++; p.tries == 1 {
		p.since = now
	}
	if now.Sub(p.since) > crdPatience {
		return err
	}
	return cluster.Pause(ctx, err, p.tries-1)
}

// putBackStored lists the versions again that an earlier run's migration took away. It
// adds to the list and takes nothing from it: nothing is verified yet.
func (r *run) putBackStored(ctx context.Context, left []v1alpha1.Step) error {
	c, err := r.current(ctx, left)
	if err != nil {
		return err
	}
	listed, err := plan.StoredOf(r.step.Patch)
	if err != nil {
		return err
	}
	for _, version := range c.Status.StoredVersions {
		if !slices.Contains(listed, version) {
			return refusef("%s is in status.storedVersions, and the plan would put back %v without it; run again to plan from here", version, listed)
		}
	}
	after, err := r.patchCRD(ctx, left)
	if err != nil {
		return err
	}
	if !slices.Equal(after.Status.StoredVersions, listed) {
		return fmt.Errorf("the server took the patch, but status.storedVersions is %v", after.Status.StoredVersions)
	}
	return nil
}

// fieldManager returns the manager of the step's patch.
func (r *run) fieldManager() string {
	if r.step.Action == v1alpha1.ActionPutBack {
		return lifecycle.PutBackManager
	}
	return r.FieldManager
}

// svmAPIVersion returns the version of the API that the server has.
func (r *run) svmAPIVersion(ctx context.Context) (string, error) {
	served, _, err := r.Cluster.Discovery().GroupVersions(ctx, "storagemigration.k8s.io")
	if err != nil {
		return "", err
	}
	if apiVersion := plan.SVMVersion(served); apiVersion != "" {
		return apiVersion, nil
	}
	if len(served) > 0 {
		return "storagemigration.k8s.io/" + served[0], nil
	}
	return "", refusef("the server has no StorageVersionMigration any more")
}

// migrations returns the StorageVersionMigrations of the resource.
func (r *run) migrations(ctx context.Context) ([]cluster.Migration, error) {
	return r.Cluster.Migrations(ctx, runtimeschema.GroupResource{Group: r.expected.Group, Resource: r.expected.Resource})
}

// ours tells whether this tool made a migration for the CRD as it is now.
func (r *run) ours(m cluster.Migration) bool {
	return cluster.OursFor(m, r.expected.UID, r.expected.StorageVersion)
}

// follow follows one migration to its end and looks after
// status.storedVersions all the while.
func (r *run) follow(ctx context.Context, apiVersion, name string) (intree.Result, error) {
	return intree.Follow(ctx, r.Cluster.SVMs(), name, intree.Options{
		APIVersion: apiVersion,
		Each: func(ctx context.Context) error {
			_, err := r.current(ctx, r.plan.Steps[r.number-1:])
			return err
		},
		Waiting: func(text string) {
			r.emit(v1alpha1.EventWaiting, func(e *v1alpha1.Event) { e.Message = text })
		},
		Notice: func(text string) { r.warn("%s", text) },
	})
}

// waitForSVMs waits for the migrations that others made. How they end is all the
// same: the objects are verified afterwards.
func (r *run) waitForSVMs(ctx context.Context, result *v1alpha1.StepReport) error {
	apiVersion, err := r.svmAPIVersion(ctx)
	if err != nil {
		return err
	}
	var ends []string
	for _, name := range r.step.SVM.Follow {
		end, err := r.follow(ctx, apiVersion, name)
		if err != nil {
			return err
		}
		ends = append(ends, end.String())
	}
	result.Message = strings.Join(ends, "; ")
	return nil
}

// inTreeMigrate has the server rewrite the objects. A migration that fails does
// not end the run: the verify pass rewrites what is left, and says what cannot be.
func (r *run) inTreeMigrate(ctx context.Context, result *v1alpha1.StepReport) error {
	if err := r.unchanged(ctx); err != nil {
		return err
	}
	apiVersion, err := r.svmAPIVersion(ctx)
	if err != nil {
		return err
	}
	name, err := r.unfinished(ctx, apiVersion)
	if err != nil {
		return err
	}
	if name == "" && len(r.step.SVM.Follow) > 0 {
		name = r.step.SVM.Follow[0]
	}
	if name == "" {
		if name, err = r.createSVM(ctx, apiVersion); err != nil {
			return err
		}
	}
	result.Message = fmt.Sprintf("StorageVersionMigration %s goes on in the server", name)
	end, err := r.follow(ctx, apiVersion, name)
	if err != nil {
		return err
	}
	result.Message = end.String()
	if end.Gone || end.Phase == cluster.MigrationFailed {
		r.warn("%s; what it left behind is rewritten from here", end)
	}
	return nil
}

// unfinished returns this tool's own migration that is not finished, which is
// followed rather than another one made, and waits for those of others: the
// server would run them one after the other anyway.
func (r *run) unfinished(ctx context.Context, apiVersion string) (string, error) {
	found, err := r.migrations(ctx)
	if err != nil {
		return "", err
	}
	own := ""
	for _, m := range found {
		switch {
		case m.Finished():
		case r.ours(m):
			own = m.Name
		default:
			r.warn("StorageVersionMigration %s, which somebody else made, is not finished: it is waited for", m.Name)
			if _, err := r.follow(ctx, apiVersion, m.Name); err != nil {
				return "", err
			}
		}
	}
	return own, nil
}

func (r *run) createSVM(ctx context.Context, apiVersion string) (string, error) {
	if r.step.SVM.Create == nil {
		return "", refusef("the plan makes no StorageVersionMigration; run again to plan from here")
	}
	template := *r.step.SVM.Create
	template.APIVersion = apiVersion
	template.Annotations = maps.Clone(template.Annotations)
	// The plan's own steps may have changed both since it was made.
	template.Annotations[v1alpha1.AnnotationGeneration] = fmt.Sprint(r.expected.Generation)
	template.Annotations[v1alpha1.AnnotationStoredVersions] = strings.Join(r.expected.StoredVersions, ",")
	made, err := r.Cluster.SVMs().Create(ctx, template, r.FieldManager)
	if err != nil {
		return "", err
	}
	return made.Name, nil
}

// deleteSVMs deletes the migrations that this tool made for the CRD, all of which
// are finished by now: the proof stands for them.
func (r *run) deleteSVMs(ctx context.Context, result *v1alpha1.StepReport) error {
	if r.verified == nil || !r.verified.Complete {
		return refusef("no complete verify pass in this run: the StorageVersionMigrations are kept")
	}
	apiVersion, err := r.svmAPIVersion(ctx)
	if err != nil {
		return err
	}
	found, err := r.migrations(ctx)
	if err != nil {
		return err
	}
	var deleted []string
	for _, m := range found {
		if !m.Finished() || !cluster.Ours(m, r.expected.UID) { // Some were made for the storage version of before.
			continue
		}
		err := r.Cluster.SVMs().Delete(ctx, apiVersion, m.Name, m.UID)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
		deleted = append(deleted, m.Name)
	}
	result.Message = "nothing was left to delete"
	if len(deleted) > 0 {
		result.Message = "deleted " + strings.Join(deleted, ", ")
	}
	return nil
}

// shard returns the filter for the part of the objects that is asked for.
func (r *run) shard() func(*metav1.PartialObjectMetadata) bool {
	holds, err := plan.InShard(r.plan.Intent)
	switch {
	case err != nil:
		// The plan was refused for it; nothing is in a part that does not exist.
		return func(*metav1.PartialObjectMetadata) bool { return false }
	case holds == nil:
		return nil
	}
	return func(o *metav1.PartialObjectMetadata) bool { return holds(o.Namespace, o.Name) }
}

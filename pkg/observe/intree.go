package observe

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/plan"
)

// roundTrips is how many small requests tell how long one takes.
const roundTrips = 3

// inTree reads the in-tree migrations of the CRD's resource.
func (o *Observer) inTree(ctx context.Context, c crd.CRD, observed *lifecycle.Observations) {
	// Asked once: most servers have no such API, and say so at each of its
	// versions in turn.
	versions, err := o.migrations.get(ctx, func() ([]string, error) {
		versions, _, err := o.cluster.Discovery().GroupVersions(ctx, migrationGroup)
		return versions, err
	})
	if err != nil {
		observed.MigrationsError = cluster.Explain(err).Message
		return
	}
	observed.MigrationVersions = versions
	if len(versions) == 0 {
		return
	}
	found, err := o.cluster.Migrations(ctx, schema.GroupResource{Group: c.Spec.Group, Resource: c.Spec.Names.Plural})
	if err != nil {
		observed.MigrationsError = cluster.Explain(err).Message
		return
	}
	observed.Migrations = make([]lifecycle.Migration, 0, len(found))
	for _, one := range found {
		migration := lifecycle.Migration{
			Name:    one.Name,
			Running: !one.Finished(),
			Failed:  one.Phase == cluster.MigrationFailed,
			Message: one.Message,
		}
		migration.Made = cluster.Ours(one, string(c.UID))
		if cluster.OursFor(one, string(c.UID), c.StorageVersion()) {
			migration.Ours = true
			migration.Stored = strings.Split(one.Annotations[v1alpha1.AnnotationStoredVersions], ",")
		}
		observed.Migrations = append(observed.Migrations, migration)
	}
}

// roundTrip measures how long a small request takes, where the answer would
// make a difference: the fastest of a few, so that one slow answer says nothing.
func (o *Observer) roundTrip(ctx context.Context, observations *lifecycle.Observations) {
	if n := observations.Objects; n == nil || *n < plan.ManyObjects {
		return
	}
	for range roundTrips {
		took, err := o.cluster.RoundTrip(ctx)
		if err != nil {
			return
		}
		if observations.RoundTrip == 0 || took < observations.RoundTrip {
			observations.RoundTrip = took
		}
	}
}

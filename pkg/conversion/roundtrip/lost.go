package roundtrip

import (
	"slices"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/conversion"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// ForMigration returns the options that send the objects of a rehearsal from a
// version at which they may be persisted to the endpoint of the rewrite and back.
func ForMigration(c crd.CRD, from string, rehearsal conversion.RehearseOptions) Options {
	return Options{
		CRD: c, From: from, To: rehearsal.RequestVersion, Sample: MigrationSample, All: rehearsal.Every, Closely: DefaultSample,
		Namespace: rehearsal.Namespace, Selector: rehearsal.LabelSelector, Filter: rehearsal.Filter, Named: rehearsal.Named,
		Concurrency: rehearsal.Concurrency, FieldManager: rehearsal.FieldManager, Progress: rehearsal.Progress,
	}
}

// Whole reports whether the objects of a rehearsal were to be sent all, and not a
// sample of them.
func Whole(trip *v1alpha1.RoundTrip, rehearsal conversion.RehearseOptions) bool {
	return rehearsal.Every || trip.Total <= MigrationSample
}

// Lost returns what a conversion loses or changes in live objects. What a schema
// prunes is left out: the rehearsal of a rewrite reports it. Where the webhook could not
// be called from here, what the server's own dry runs lose is all there is to know, and
// no stage is known for it.
func Lost(trip *v1alpha1.RoundTrip) []v1alpha1.FieldDifference {
	stages := []v1alpha1.Stage{v1alpha1.StageConversion, v1alpha1.StageServer, v1alpha1.StageUnknown}
	var lost []v1alpha1.FieldDifference
	for _, pair := range trip.Pairs {
		for _, d := range slices.Concat(pair.Differences, pair.Metadata) {
			if d.Change == v1alpha1.ChangeAppeared || d.Objects == 0 || !slices.Contains(stages, d.Stage) {
				continue
			}
			lost = append(lost, v1alpha1.FieldDifference{Path: d.Path, Change: d.Change, Objects: d.Objects, Examples: d.Examples})
		}
	}
	return lost
}

package roundtrip

import (
	"slices"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// Lost returns what a conversion loses or changes in live objects. What a schema
// prunes is left out: the rehearsal of a rewrite reports it.
func Lost(trip *v1alpha1.RoundTrip) []v1alpha1.FieldDifference {
	var lost []v1alpha1.FieldDifference
	for _, pair := range trip.Pairs {
		for _, d := range slices.Concat(pair.Differences, pair.Metadata) {
			if d.Change == v1alpha1.ChangeAppeared || d.Objects == 0 || d.Stage != v1alpha1.StageConversion && d.Stage != v1alpha1.StageServer {
				continue
			}
			lost = append(lost, v1alpha1.FieldDifference{Path: d.Path, Change: d.Change, Objects: d.Objects, Examples: d.Examples})
		}
	}
	return lost
}

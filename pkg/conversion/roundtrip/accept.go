package roundtrip

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// Accept marks the differences of a report that are expected, counts all, and
// returns the accepted ones that were not found.
func Accept(report *v1alpha1.RoundTripReport, accepted []v1alpha1.AcceptedDifference) (unused []v1alpha1.AcceptedDifference) {
	expected := map[v1alpha1.AcceptedDifference]bool{}
	for _, a := range accepted {
		a.Reason = ""
		expected[a] = true
	}
	used := map[v1alpha1.AcceptedDifference]bool{}
	report.Summary = v1alpha1.RoundTripSummary{CRDs: len(report.Items)}
	s := &report.Summary
	for i := range report.Items {
		item := &report.Items[i]
		s.Objects += item.Objects
		s.Generated += item.Generated
		s.Open += len(item.Open)
		for j := range item.Pairs {
			pair := &item.Pairs[j]
			s.Failed += len(pair.Failures)
			for _, list := range [][]v1alpha1.RoundTripDifference{pair.Differences, pair.Metadata} {
				for k := range list {
					key := acceptedOf(*item, *pair, list[k])
					list[k].Accepted = expected[key]
					used[key] = true
					count(s, list[k])
				}
			}
		}
	}
	for _, a := range accepted {
		key := a
		key.Reason = ""
		if !used[key] {
			unused = append(unused, a)
		}
	}
	return unused
}

// count adds a difference to a summary.
func count(s *v1alpha1.RoundTripSummary, d v1alpha1.RoundTripDifference) {
	switch {
	case d.Accepted:
		s.Accepted++
	case d.Change == v1alpha1.ChangeLost:
		s.Lost++
	case d.Change == v1alpha1.ChangeChanged:
		s.Changed++
	default:
		s.Appeared++
	}
}

// Expected returns everything that a report found, to be accepted from now on.
// What somebody wrote about a difference before is kept.
func Expected(report *v1alpha1.RoundTripReport, before []v1alpha1.AcceptedDifference) []v1alpha1.AcceptedDifference {
	reasons := map[v1alpha1.AcceptedDifference]string{}
	for _, a := range before {
		key := a
		key.Reason = ""
		reasons[key] = a.Reason
	}
	items := []v1alpha1.AcceptedDifference{}
	seen := map[v1alpha1.AcceptedDifference]bool{}
	for _, item := range report.Items {
		for _, pair := range item.Pairs {
			for _, list := range [][]v1alpha1.RoundTripDifference{pair.Differences, pair.Metadata} {
				for _, d := range list {
					key := acceptedOf(item, pair, d)
					if seen[key] {
						continue
					}
					seen[key] = true
					one := key
					one.Reason = reasons[key]
					items = append(items, one)
				}
			}
		}
	}
	return items
}

func acceptedOf(item v1alpha1.RoundTrip, pair v1alpha1.RoundTripPair, d v1alpha1.RoundTripDifference) v1alpha1.AcceptedDifference {
	return v1alpha1.AcceptedDifference{CRD: item.CRD, From: pair.From, To: pair.To, Path: d.Path, Change: d.Change, Stage: d.Stage}
}

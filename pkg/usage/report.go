package usage

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// collectors is how many sources, of all targets, are looked at at a time.
const collectors = 8

// Options say how to judge what is found.
type Options struct {
	// Window is how old a request may be to count as use.
	Window time.Duration
	// Now returns the time; it is asked when everything has been collected.
	Now func() time.Time
	// NotLooked is what nobody looks at.
	NotLooked []v1alpha1.Unlooked
}

// collected is what one collector has of one target.
type collected struct {
	evidence []v1alpha1.UsageEvidence
	unlooked []v1alpha1.Unlooked
}

// Report collects evidence of the targets from all sources, several at a time,
// and judges each version. command returns this very command for one target; it
// is what would look at what was not looked at, run by one who may, or with the
// flags that the collector has put in the place of the command.
func Report(
	ctx context.Context, from []Collector, targets []Target, options Options, command func(Target) string,
) (*v1alpha1.UsageReport, error) {
	results := make([][]collected, len(targets))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(collectors)
	for i, target := range targets {
		results[i] = make([]collected, len(from))
		for j, collector := range from {
			group.Go(func() (err error) {
				one := &results[i][j]
				one.evidence, one.unlooked, err = collector.Collect(groupCtx, target)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	now := options.Now()
	report := &v1alpha1.UsageReport{
		Window: metav1.Duration{Duration: options.Window}, Time: metav1.Time{Time: now.UTC()}, Items: []v1alpha1.VersionUsage{},
	}
	for i, target := range targets {
		for _, version := range target.Versions {
			item := judged(target, version, results[i], options, now)
			for j := range item.NotLooked {
				switch missing := &item.NotLooked[j]; {
				case missing.Command == "":
					missing.Command = command(target)
				case strings.HasPrefix(missing.Command, "--"):
					missing.Command = command(target) + " " + missing.Command
				}
			}
			item.Objects = objectsOf(from, target)
			report.Items = append(report.Items, item)
		}
	}
	return report, nil
}

// judged puts together what is known of one version.
func judged(target Target, version string, results []collected, options Options, now time.Time) v1alpha1.VersionUsage {
	item := v1alpha1.VersionUsage{CRD: target.CRD.Name, Version: version, Notes: notes(target, version), Evidence: []v1alpha1.UsageEvidence{}}
	if v := target.CRD.Version(version); v != nil {
		item.Served, item.Storage, item.Deprecated = v.Served, v.Storage, v.Deprecated
	}
	for _, result := range results {
		for _, evidence := range result.evidence {
			if evidence.Version == version {
				item.Evidence = append(item.Evidence, evidence)
			}
		}
		item.NotLooked = append(item.NotLooked, result.unlooked...)
	}
	item.NotLooked = append(item.NotLooked, options.NotLooked...)
	sortEvidence(item.Evidence, options.Window, now)
	item.Verdict, item.Why = Judge(item.Evidence, item.NotLooked, options.Window, now)
	return item
}

// sortEvidence puts first what decides, and then what proves most.
func sortEvidence(evidence []v1alpha1.UsageEvidence, window time.Duration, now time.Time) {
	rank := func(e v1alpha1.UsageEvidence) int {
		proofs := []v1alpha1.UsageProof{v1alpha1.ProvesUse, v1alpha1.ProvesReference, v1alpha1.ProvesPastUse, v1alpha1.ProvesCapability}
		place := slices.Index(proofs, e.Proves)
		if !inUse(e, window, now) {
			place += len(proofs)
		}
		return place
	}
	last := func(e v1alpha1.UsageEvidence) int64 {
		if e.LastSeen == nil {
			return 0
		}
		return e.LastSeen.Unix()
	}
	slices.SortStableFunc(evidence, func(a, b v1alpha1.UsageEvidence) int {
		return cmp.Or(
			cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Source, b.Source), cmp.Compare(last(b), last(a)), cmp.Compare(b.Count, a.Count),
			cmp.Compare(a.Who, b.Who), cmp.Compare(a.What, b.What), cmp.Compare(a.Subresource, b.Subresource),
		)
	})
}

func objectsOf(from []Collector, target Target) *int64 {
	for _, collector := range from {
		if counter, counts := collector.(Counter); counts {
			if count, known := counter.Objects(target.CRD.Name); known {
				return &count
			}
		}
	}
	return nil
}

// notes says what no evidence shows.
func notes(target Target, version string) []string {
	c := target.CRD
	v := c.Version(version)
	switch {
	case v == nil:
		return []string{"the CRD no longer has this version"}
	case !v.Served:
		return []string{"it is not served: a request at it fails now"}
	case len(c.Served()) == 1:
		return []string{"it is the only served version: every client uses it"}
	}
	var notes []string
	if c.KubectlDefault() == version {
		notes = append(notes, "it is the version that kubectl and other clients that go by discovery use where none is named")
	}
	if len(c.Deprecated()) > 0 && !slices.ContainsFunc(c.Served(), func(served string) bool { return !slices.Contains(c.Deprecated(), served) }) {
		notes = append(notes, "all served versions are deprecated: there is none to move to")
	}
	return notes
}

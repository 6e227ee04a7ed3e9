package usage

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// Collected runs collectors for all targets and returns as many that only look up
// what these have found. It is for what has to be done before something that takes
// long and that the user may end, as watching does.
func Collected(ctx context.Context, from []Collector, targets []Target) ([]Collector, error) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(collectors)
	done := make([]Collector, len(from))
	for i, collector := range from {
		found := make([]collected, len(targets))
		one := &lookup{Collector: collector, found: found, targets: targets}
		done[i] = one
		if counter, counts := collector.(Counter); counts {
			done[i] = countingLookup{lookup: one, Counter: counter}
		}
		for j, target := range targets {
			group.Go(func() (err error) {
				found[j].evidence, found[j].unlooked, err = collector.Collect(groupCtx, target)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return done, nil
}

// lookup is a collector that has collected.
type lookup struct {
	Collector
	targets []Target
	found   []collected
}

// countingLookup is one that has counted objects, too.
type countingLookup struct {
	*lookup
	Counter
}

// Collect implements [Collector].
func (l *lookup) Collect(ctx context.Context, target Target) ([]v1alpha1.UsageEvidence, []v1alpha1.Unlooked, error) {
	for i, known := range l.targets {
		if known.CRD.Name == target.CRD.Name {
			return l.found[i].evidence, l.found[i].unlooked, nil
		}
	}
	return l.Collector.Collect(ctx, target)
}

package doctor

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

const (
	// repeats is how often the same objects are sent: more than twice, for a
	// webhook whose every second answer differs.
	repeats = 4
	// together is how many calls are made at the same time, rounds how often.
	together, rounds = 8, 3
)

// state sends the same again, and much at the same time.
func (e *examination) state(ctx context.Context) error {
	var remembered, mixed string
	for _, p := range e.pairs() {
		objects := e.samples.objects[p.from]
		_, first := e.probe(ctx, objects, p.to)
		for range repeats {
			wrong, next := e.probe(ctx, objects, p.to)
			if text := e.otherwise(first, next, p.to, wrong); text != "" && remembered == "" {
				remembered = fmt.Sprintf("%s: %s", p, text)
			}
		}
		if remembered == "" && mixed == "" {
			mixed = e.concurrent(ctx, p, first)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	e.verdict(checkNoState, remembered, v1alpha1.CheckFailed, "the same each time")
	if remembered != "" {
		e.add(v1alpha1.CheckStageProtocol, checkConcurrent, v1alpha1.CheckSkipped, "calls one after the other already differ")
		e.noRoundTrips = "the same object is not converted in the same way each time"
		return nil
	}
	e.verdict(checkConcurrent, mixed, v1alpha1.CheckFailed, fmt.Sprintf("%d calls at a time", together))
	return nil
}

// otherwise tells how two answers to the same request differ.
func (e *examination) otherwise(first, next []map[string]any, version, wrong string) string {
	switch {
	case wrong != "":
		return wrong
	case len(first) != len(next):
		return fmt.Sprintf("%d objects, then %d", len(first), len(next))
	}
	for i := range first {
		if paths := e.differ(first[i], next[i], version); paths != "" {
			return paths
		}
	}
	return ""
}

// concurrent makes calls at the same time, for different objects.
func (e *examination) concurrent(ctx context.Context, p pair, alone []map[string]any) string {
	objects := e.samples.objects[p.from]
	if len(alone) != len(objects) {
		return ""
	}
	texts := make([]string, together*rounds)
	var group errgroup.Group
	group.SetLimit(together)
	for n := range texts {
		group.Go(func() error {
			i := n % len(objects)
			wrong, converted := e.probe(ctx, objects[i:i+1], p.to)
			if text := e.otherwise(alone[i:i+1], converted, p.to, wrong); text != "" {
				texts[n] = fmt.Sprintf("%s: %s", p, text)
			}
			return nil
		})
	}
	_ = group.Wait() // The workers return no errors.
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

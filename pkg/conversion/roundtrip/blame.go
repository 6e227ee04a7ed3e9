package roundtrip

import (
	"context"
	"slices"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/conversion"
)

// blamed is a difference and what made it.
type blamed struct {
	conversion.Difference

	stage   v1alpha1.Stage
	version string
}

// trip is the way from a version to another one and back.
type trip struct {
	from, to, storage *version
}

// judge sends an object on a round trip and says what is different then, and
// what made it so. The replay with all stages decides what is different; the stage
// is that of the first replay in which the field, or what it lies in, differs
// already: conversion alone, conversion and pruning, all three. So each stage answers
// for what it did to a field that was intact until then.
func (r *run) judge(ctx context.Context, t trip, object map[string]any, written bool) ([]blamed, error) {
	hops := chain(t.from, t.to, t.storage, written)
	all, err := replay(ctx, r.converter, object, hops, stages{prune: every, defaults: every})
	if err != nil {
		return nil, err
	}
	different := conversion.Differences(object, all.object, t.from.schema)
	appeared := conversion.Differences(all.read, all.written, t.to.schema)
	if len(different) == 0 && len(appeared) == 0 && !all.touched {
		return nil, nil
	}
	converted := different
	pruned := different
	if all.touched {
		one, err := replay(ctx, r.converter, object, hops, stages{})
		if err != nil {
			return nil, err
		}
		converted = conversion.Differences(object, one.object, t.from.schema)
		two, err := replay(ctx, r.converter, object, hops, stages{prune: every})
		if err != nil {
			return nil, err
		}
		pruned = conversion.Differences(object, two.object, t.from.schema)
	}
	b := blame{run: r, trip: t, hops: hops, object: object}
	for _, d := range different {
		b.add(ctx, d, stageOf(d.At, converted, pruned))
	}
	// A field that was lost in one that another stage lost as a whole.
	b.inner(ctx, converted, different, v1alpha1.StageConversion)
	b.inner(ctx, pruned, different, v1alpha1.StagePruning)
	for _, d := range appeared {
		// The default that clients of the other version see, although it need not
		// come back.
		known := slices.ContainsFunc(b.found, func(f blamed) bool { return f.At == d.At && f.stage == v1alpha1.StageDefaulting })
		if !known && d.Change == v1alpha1.ChangeAppeared {
			b.found = append(b.found, blamed{Difference: d, stage: v1alpha1.StageDefaulting, version: t.to.name})
		}
	}
	return b.found, b.err
}

// stageOf returns what made a difference.
func stageOf(at string, converted, pruned []conversion.Difference) v1alpha1.Stage {
	around := func(d conversion.Difference) bool { return conversion.Within(at, d.At) }
	switch {
	case slices.ContainsFunc(converted, around):
		return v1alpha1.StageConversion
	case slices.ContainsFunc(pruned, around):
		return v1alpha1.StagePruning
	default:
		return v1alpha1.StageDefaulting
	}
}

// blame collects the differences of one object.
type blame struct {
	run    *run
	trip   trip
	hops   []hop
	object map[string]any
	found  []blamed
	err    error
}

// inner adds what a stage lost within a field that was lost as a whole later.
func (b *blame) inner(ctx context.Context, early, different []conversion.Difference, stage v1alpha1.Stage) {
	for _, d := range early {
		inLost := func(whole conversion.Difference) bool {
			return whole.Change == v1alpha1.ChangeLost && whole.At != d.At && conversion.Within(d.At, whole.At)
		}
		known := slices.ContainsFunc(b.found, func(f blamed) bool { return f.At == d.At })
		if !known && d.Change != v1alpha1.ChangeAppeared && slices.ContainsFunc(different, inLost) {
			b.add(ctx, d, stage)
		}
	}
}

// add notes a difference and finds out where it was made. That is the same for
// all objects, so it is done once.
func (b *blame) add(ctx context.Context, d conversion.Difference, stage v1alpha1.Stage) {
	key := whereKey{from: b.trip.from.name, to: b.trip.to.name, path: d.Path, change: d.Change, stage: stage}
	if known, ok := b.run.where.Load(key); ok {
		version, _ := known.(string)
		b.found = append(b.found, blamed{Difference: d, stage: stage, version: version})
		return
	}
	version, err := b.where(ctx, d, stage)
	if err != nil {
		b.err = err
		return
	}
	b.run.where.Store(key, version)
	b.found = append(b.found, blamed{Difference: d, stage: stage, version: version})
}

type whereKey struct {
	from, to, path, change string
	stage                  v1alpha1.Stage
}

// where returns the version at which a stage made a difference: that of the first
// hop which makes it, if the stage stops after it. Conversions have the storage
// version at one end, and the other one is told.
func (b *blame) where(ctx context.Context, d conversion.Difference, stage v1alpha1.Stage) (string, error) {
	if stage == v1alpha1.StageConversion {
		return b.edge(ctx, d)
	}
	for i := range b.hops {
		s := stages{prune: i + 1}
		if stage == v1alpha1.StageDefaulting {
			s = stages{prune: every, defaults: i + 1}
		}
		result, err := replay(ctx, b.run.converter, b.object, b.hops, s)
		if err != nil {
			return "", err
		}
		found := conversion.Differences(b.object, result.object, b.trip.from.schema)
		if slices.ContainsFunc(found, func(f conversion.Difference) bool { return conversion.Within(d.At, f.At) && f.Change == d.Change }) {
			return b.hops[i].to.name, nil
		}
	}
	return "", nil
}

// edge returns the other end of the conversion that made a difference.
func (b *blame) edge(ctx context.Context, d conversion.Difference) (string, error) {
	switch b.trip.storage {
	case b.trip.from:
		return b.trip.to.name, nil
	case b.trip.to:
		return b.trip.from.name, nil
	}
	half := chain(b.trip.from, b.trip.storage, b.trip.storage, false)
	result, err := replay(ctx, b.run.converter, b.object, half, stages{})
	if err != nil {
		return "", err
	}
	for _, f := range conversion.Differences(b.object, result.object, b.trip.from.schema) {
		if conversion.Within(d.At, f.At) {
			return b.trip.from.name, nil
		}
	}
	return b.trip.to.name, nil
}

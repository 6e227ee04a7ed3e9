package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// roundTrips are those that are compared: a client beside the server, and one
// that is 20 ms away.
func roundTrips() []time.Duration { return []time.Duration{0, 20 * time.Millisecond} }

// shares divides the objects so that the slow contestants get few.
func (o options) shares() []share {
	some, few := min(300, o.objects/4), min(60, o.objects/8)
	return []share{{shareMost, o.objects - some - few}, {shareSome, some}, {shareFew, few}}
}

// migrate compares all contestants.
func migrate(ctx context.Context, o options) (Results, error) {
	return compare(ctx, o, func(c contestant, roundTrip time.Duration) bool {
		// The controller is always beside the server.
		return o.takesPart(c) && !(c.inTree && roundTrip > 0)
	})
}

// takesPart tells whether a contestant was asked for and can run.
func (o options) takesPart(c contestant) bool {
	switch {
	case len(o.only) > 0 && !slices.Contains(o.only, c.ID):
		return false
	case c.command != nil:
		return o.plugin != ""
	case c.inTree:
		return o.bed == bedFull || o.bed == bedAuto && os.Getenv(testbed.AssetsVariable) != ""
	default:
		return true
	}
}

// compare lets those contestants that are asked for rewrite the same objects on the
// same server, in turn.
func compare(ctx context.Context, o options, asked func(contestant, time.Duration) bool) (Results, error) {
	dir, err := os.MkdirTemp("", "crdver-bench-")
	if err != nil {
		return Results{}, fmt.Errorf("creating a directory: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // A leftover in the temporary directory is harmless.
	f, err := prepareField(ctx, o, dir, o.shares())
	if err != nil {
		return Results{}, err
	}
	defer f.bed.Stop()
	results := Results{
		Machine: thisMachine(), Date: time.Now().UTC().Truncate(time.Second), Server: f.bed.name,
		Objects: o.objects, ObjectBytes: o.objectBytes, Rounds: o.rounds,
	}
	for _, roundTrip := range roundTrips() {
		table, err := f.table(ctx, slices.DeleteFunc(contestants(), func(c contestant) bool { return !asked(c, roundTrip) }), roundTrip)
		if err != nil {
			return results, err
		}
		results.Tables = append(results.Tables, table)
	}
	return results, nil
}

// table runs the rounds with one round trip. Each round begins with another
// contestant: what the machine does besides hits all of them alike.
func (f *field) table(ctx context.Context, all []contestant, roundTrip time.Duration) (Table, error) {
	table := Table{RoundTripMilliseconds: float64(roundTrip) / float64(time.Millisecond)}
	for _, c := range all {
		table.Results = append(table.Results, Result{ID: c.ID, Title: c.Title, Ceiling: c.ceiling, Serial: c.serial})
	}
	for round := range f.rounds {
		for i := range all {
			at := (i + round*len(all)/f.rounds) % len(all)
			c := all[at]
			run, err := f.measure(ctx, c, roundTrip)
			if err != nil {
				return table, err
			}
			table.Results[at].add(run)
			f.say("round %d of %d, round trip %s, %s: %.0f objects/s, %.0f B each", round+1, f.rounds, roundTrip, c.ID, run.ObjectsPerSecond, run.bytes())
		}
	}
	return table, nil
}

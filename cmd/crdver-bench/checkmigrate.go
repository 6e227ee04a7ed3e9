package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/crdver/kubectl-crdver/pkg/bench"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// The budgets of a migration.
const (
	maxBytesPerObject = 1000
	minTimesSerial    = 6
	minPartOfBare     = 0.9
)

// checkMigrate measures what a migration may cost and how fast it has to be.
func checkMigrate(ctx context.Context, o options, _ string) ([]Budget, error) {
	// Each budget names the round trip and the others that it is about.
	results, err := compare(ctx, o, func(c contestant, roundTrip time.Duration) bool {
		return c.ID == idEngine || c.ceiling && roundTrip == 0 || c.serial && roundTrip > 0
	})
	if err != nil {
		return nil, err
	}
	near, far := results.Tables[0], results.Tables[1]
	own := near.find(idEngine)
	part, ceiling := near.partOfCeiling()
	ownFar, serial := far.find(idEngine), far.fastest(func(r Result) bool { return r.Serial })
	if own == nil || part == 0 || ownFar == nil || serial == nil {
		return nil, errors.New("a contestant is missing")
	}
	bytes := max(own.Median.bytes(), ownFar.Median.bytes())
	times := ownFar.Median.ObjectsPerSecond / serial.Median.ObjectsPerSecond
	return []Budget{
		atMost("bytes", fmt.Sprintf("migrating: bytes per object of %d bytes, list included", o.objectBytes), bytes, maxBytesPerObject,
			"at most 1,000", fmt.Sprintf("%.0f", bytes)),
		atLeast("serial", "migrating: rate with a round trip of 20 ms", times, minTimesSerial, "at least 6 times the fastest serial migrator",
			fmt.Sprintf("%.1f times (%.0f and %.1f objects/s; %s)", times, ownFar.Median.ObjectsPerSecond, serial.Median.ObjectsPerSecond, serial.ID)),
		atLeast("bare", "migrating: rate beside the server", part, minPartOfBare, "at least 90 % of the best bare load generator",
			fmt.Sprintf("%.0f %% (%.0f and %.0f objects/s)", part*100, own.Median.ObjectsPerSecond, ceiling)),
	}, nil
}

// rerunObjects is how many objects a migration that is run again goes over.
const rerunObjects = 500

// checkRerun migrates, and then runs the plugin and a pass of the engine again.
// The API server of this module writes nothing of its own accord, so that the
// revision of etcd tells of every write.
func checkRerun(ctx context.Context, o options, dir string) ([]Budget, error) {
	o.bed = bedInProcess
	f, err := prepareField(ctx, o, dir, []share{{shareMost, rerunObjects}})
	if err != nil {
		return nil, err
	}
	defer f.bed.Stop()
	if err := f.objects.flip(ctx); err != nil {
		return nil, err
	}
	migrateCommand := contestants()[slices.IndexFunc(contestants(), func(c contestant) bool { return c.ID == idCommand })]
	if _, err := f.runCommand(ctx, migrateCommand, f.direct); err != nil {
		return nil, err
	}
	if err := f.objects.verify(ctx, everything, rerunObjects); err != nil {
		return nil, err
	}
	before, err := f.revision(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := f.runCommand(ctx, migrateCommand, f.direct); err != nil {
		return nil, err
	}
	pass, err := f.runClient(ctx, bench.Request{
		Way: bench.WayEngine, Kubeconfig: f.direct, Resource: testbed.CronTabResource(f.objects.storage),
	})
	if err != nil {
		return nil, err
	}
	after, err := f.revision(ctx)
	if err != nil {
		return nil, err
	}
	writes := float64(after - before)
	return []Budget{atMost("rerun", "running again when all objects are current", writes, 0, "no writes to etcd",
		fmt.Sprintf("%.0f writes, and %d of %d objects rewritten", writes, pass.Rewritten, pass.Objects))}, nil
}

// revision returns that of etcd, which each write raises.
func (f *field) revision(ctx context.Context) (int64, error) {
	answer, err := f.bed.Etcd().Get(ctx, "/", clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("reading the revision of etcd: %w", err)
	}
	return answer.Header.Revision, nil
}

// The budgets of memory: "the same" leaves room for what a garbage collector does
// at one time and not at another.
const (
	fewObjects, manyObjects = 10_000, 1_000_000
	maxMemoryMegabytes      = 150
	sameMemory              = 1.2
)

// checkMemory goes over made-up objects: a real server would need a day to create
// as many.
func checkMemory(ctx context.Context, o options, dir string) ([]Budget, error) {
	f := &field{options: o, dir: dir}
	var peaks []float64
	var seconds float64
	for _, count := range []int64{fewObjects, manyObjects} {
		f.say("going over %d made-up objects", count)
		outcome, err := f.passOverSynthetic(ctx, count)
		if err != nil {
			return nil, err
		}
		if outcome.Objects != count {
			return nil, fmt.Errorf("it went over %d objects of %d", outcome.Objects, count)
		}
		peaks, seconds = append(peaks, float64(outcome.PeakBytes)/1e6), outcome.Seconds
	}
	few, many := peaks[0], peaks[1]
	measured := fmt.Sprintf("%.0f MB and %.0f MB (%s for the latter)", few, many, time.Duration(seconds*float64(time.Second)).Round(time.Second))
	what := "migrating: peak memory of the client, 10,000 and 1,000,000 objects"
	return []Budget{
		atMost("memory-same", what, many/few, sameMemory, "the same", measured),
		atMost("memory", what, max(few, many), maxMemoryMegabytes, "under 150 MB", measured),
	}, nil
}

// passOverSynthetic runs a pass of the engine over made-up objects.
func (f *field) passOverSynthetic(ctx context.Context, count int64) (bench.Outcome, error) {
	server, err := startSynthetic(ctx, count)
	if err != nil {
		return bench.Outcome{}, err
	}
	defer server.close()
	kubeconfig := filepath.Join(f.dir, "synthetic.kubeconfig")
	if err := testbed.WriteKubeconfig(kubeconfig, server.config()); err != nil {
		return bench.Outcome{}, err
	}
	return f.runClient(ctx, bench.Request{Way: bench.WayEngine, Kubeconfig: kubeconfig, Resource: testbed.CronTabResource(newVersion)})
}

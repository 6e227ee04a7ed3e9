package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/bench"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// field is where contestants run: a server, its objects, and a place for files.
type field struct {
	options
	dir     string
	bed     *bed
	objects *objects
	// direct is a kubeconfig without a proxy.
	direct string
	// idle is the share of a CPU that the servers take when nobody asks them.
	idle float64
}

// prepareField starts a server and fills it.
func prepareField(ctx context.Context, o options, dir string, shares []share) (*field, error) {
	f := &field{options: o, dir: dir, direct: filepath.Join(dir, "direct.kubeconfig")}
	var err error
	if f.bed, err = startBed(ctx, o, dir); err != nil {
		return nil, err
	}
	if err := f.fill(ctx, shares); err != nil {
		f.bed.Stop()
		return nil, err
	}
	return f, nil
}

func (f *field) fill(ctx context.Context, shares []share) error {
	if err := f.bed.WriteKubeconfig(f.direct); err != nil {
		return err
	}
	f.say("creating the objects")
	var err error
	if f.objects, err = createObjects(ctx, f.bed, f.objectBytes, shares); err != nil {
		return err
	}
	if err := waitIdle(ctx, f.bed.ids, time.Minute); err != nil {
		return err
	}
	f.idle, err = idleShare(ctx, f.bed.ids, f.idleFor)
	return err
}

// idleShare measures how much of a CPU processes take when they have nothing to
// do.
func idleShare(ctx context.Context, ids []int, duration time.Duration) (float64, error) {
	before, err := cpuOf(ids)
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(duration):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	after, err := cpuOf(ids)
	return (after - before).Seconds() / duration.Seconds(), err
}

// measure lets a contestant rewrite its share through a proxy with a round trip,
// and reads from etcd that it did.
func (f *field) measure(ctx context.Context, c contestant, roundTrip time.Duration) (Run, error) {
	if err := f.objects.flip(ctx); err != nil {
		return Run{}, fmt.Errorf("getting ready for %s: %w", c.ID, err)
	}
	proxy, err := startRelay(ctx, f.bed.Config().Host, roundTrip)
	if err != nil {
		return Run{}, err
	}
	defer proxy.close()
	config := f.bed.Config()
	config.Host = proxy.url()
	before, err := cpuOf(f.bed.ids)
	if err != nil {
		return Run{}, err
	}
	begin := time.Now()
	outcome, err := f.start(ctx, c, config, proxy)
	if err != nil {
		return Run{}, fmt.Errorf("%s: %w", c.ID, err)
	}
	wall := time.Since(begin)
	after, err := cpuOf(f.bed.ids)
	if err != nil {
		return Run{}, err
	}
	server := max(0, (after-before).Seconds()-f.idle*wall.Seconds())
	if err := f.check(ctx, c, outcome); err != nil {
		return Run{}, fmt.Errorf("%s: %w", c.ID, err)
	}
	return newRun(outcome, proxy.sent.Load(), proxy.received.Load(), server), nil
}

// check reads from etcd what a contestant did, and does the rest.
func (f *field) check(ctx context.Context, c contestant, outcome bench.Outcome) error {
	want := f.objects.total(c.request.Namespace)
	if c.request.Limit > 0 {
		want = min(want, c.request.Limit)
	}
	if outcome.Objects != int64(want) || outcome.Rewritten != int64(want) {
		return fmt.Errorf("it says that it went over %d objects and rewrote %d, want %d", outcome.Objects, outcome.Rewritten, want)
	}
	if err := f.objects.verify(ctx, c.request.Namespace, want); err != nil {
		return err
	}
	return f.objects.finish(ctx, f.direct, c.request.Limit)
}

func (f *field) start(ctx context.Context, c contestant, config *rest.Config, proxy *relay) (bench.Outcome, error) {
	if c.inTree {
		return f.runInTree(ctx, proxy)
	}
	kubeconfig := filepath.Join(f.dir, "proxy.kubeconfig")
	if err := testbed.WriteKubeconfig(kubeconfig, config); err != nil {
		return bench.Outcome{}, err
	}
	if c.command != nil {
		return f.runCommand(ctx, c, kubeconfig)
	}
	request := c.request
	request.Kubeconfig, request.Resource = kubeconfig, testbed.CronTabResource(f.objects.storage)
	return f.runClient(ctx, request)
}

// runClient runs a way in a process of its own.
func (f *field) runClient(ctx context.Context, request bench.Request) (bench.Outcome, error) {
	argument, err := json.Marshal(request)
	if err != nil {
		return bench.Outcome{}, fmt.Errorf("writing the request: %w", err)
	}
	var stdout bytes.Buffer
	if _, err := runProcess(ctx, &stdout, nil, append(append([]string(nil), f.client...), string(argument))...); err != nil {
		return bench.Outcome{}, err
	}
	var outcome bench.Outcome
	if err := json.Unmarshal(stdout.Bytes(), &outcome); err != nil {
		return bench.Outcome{}, fmt.Errorf("reading the outcome: %w", err)
	}
	return outcome, nil
}

// runCommand runs the plugin as users do. What it took is what the whole process
// took, its start included.
func (f *field) runCommand(ctx context.Context, c contestant, kubeconfig string) (bench.Outcome, error) {
	took, err := runProcess(ctx, io.Discard, []string{"KUBECONFIG=" + kubeconfig}, append([]string{f.plugin}, c.command...)...)
	total := int64(f.objects.total(everything))
	return bench.Outcome{
		// It says so with its exit code; etcd is asked afterwards.
		Objects: total, Rewritten: total,
		Seconds: took.wall.Seconds(), CPUSeconds: took.cpu.Seconds(), PeakBytes: took.peak,
	}, err
}

// say tells how far the benchmark is.
func (f *field) say(format string, args ...any) {
	_, _ = fmt.Fprintf(f.stderr, format+"\n", args...) // Nothing depends on it.
}

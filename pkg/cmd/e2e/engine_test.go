package e2e_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestEngines is about the engines on a server that has no in-tree migration.
func TestEngines(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	name := b.createCRD(t, crontabs("engines.example.com", "v1beta1", "v1"))
	got := b.must(t, 3, "promote", "v1", name, "--engine", "in-tree", "--yes")
	if !strings.Contains(got.stderr, "the server has no StorageVersionMigration") || !strings.Contains(got.stderr, "to resolve: pass --engine client") {
		t.Errorf("%s", got)
	}
	got = b.must(t, 0, "promote", "v1", name, "--dry-run=client")
	if !strings.Contains(got.stdout, "engine   client (auto: ") {
		t.Errorf("%s", got)
	}
	got = b.must(t, 1, "promote", "v1", name, "--engine", "fast")
	if !strings.Contains(got.stderr, "use auto, client or in-tree") {
		t.Errorf("%s", got)
	}
}

// TestStoppedShard stops a run on a part of the objects: it goes on with the same
// command. What is done leaves the rest, which is another one.
func TestStoppedShard(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	const group = "stoppedshard.example.com"
	name := b.scene(t, group, 20)
	b.must(t, 0, "promote", "v1", name, "--yes", "--until", "set-storage")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stopped := make(chan result, 1)
	go func() {
		stopped <- execute(ctx, &bytes.Buffer{}, "migrate", name, "--shard", "0/1", "--until", "migrate", "--qps", "5", "--yes", "--kubeconfig", b.kubeconfig)
	}()
	eventually(t, func() bool {
		stored, err := testbed.CountByVersion(t.Context(), b.Etcd(), group, testbed.CronTabPlural)
		return err == nil && stored["v1"] > 1
	})
	stop()
	got := <-stopped
	contains(t, got.stdout, "(interrupted)", "to continue: kubectl crdver migrate "+name+" --shard 0/1 --until migrate --kubeconfig ")
	got = b.must(t, 0, "migrate", name, "--shard", "0/1", "--until", "migrate", "--yes")
	contains(t, got.stderr, "run again without --until and --shard for the rest")
	contains(t, got.stdout, "to continue: kubectl crdver migrate "+name+" --kubeconfig ")
}

// TestShards divides the namespaces: each object is in exactly one part, no part
// trims, and the whole run finds everything done.
func TestShards(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	group := "shards.example.com"
	name := b.createCRD(t, crontabs(group, "v1beta1", "v1"))
	b.createObjects(t, group, "v1beta1", 21, "a", "b", "c", "d", "e", "f", "g")
	b.must(t, 0, "promote", "v1", name, "--yes", "--until", "set-storage")
	for _, shard := range []string{"3/3", "x", "1", "-1/2", "0/0"} {
		b.must(t, 1, "migrate", name, "--shard", shard, "--yes")
	}
	left := 21
	for _, shard := range []string{"0/3", "1/3", "2/3"} {
		got := b.must(t, 0, "migrate", name, "--shard", shard, "--yes")
		contains(t, got.stderr, "run again without --shard for the rest")
		contains(t, got.stdout, "to continue: kubectl crdver migrate "+name+" --kubeconfig ")
		stored, err := testbed.CountByVersion(t.Context(), b.Etcd(), group, testbed.CronTabPlural)
		if err != nil {
			t.Fatal(err)
		}
		if stored["v1beta1"] >= left {
			t.Errorf("shard %s rewrote nothing: %v", shard, stored)
		}
		left = stored["v1beta1"]
		if got := b.crd(t, name).Status.StoredVersions; !slices.Equal(got, []string{"v1beta1", "v1"}) {
			t.Errorf("shard %s trimmed: %v", shard, got)
		}
	}
	if left > 0 {
		t.Errorf("%d objects are in no shard", left)
	}
	got := b.must(t, 0, "migrate", name, "--yes")
	if !strings.Contains(got.stdout, "migrate: 21 objects: 21 already current") {
		t.Errorf("%s", got)
	}
}

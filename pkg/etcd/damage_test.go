package etcd_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/crdver/kubectl-crdver/pkg/etcd"
)

// readFile opens a file and counts what is in it.
func readFile(ctx context.Context, file string, options etcd.SnapshotOptions) (string, error) {
	snapshot, err := etcd.OpenSnapshot(ctx, file, options)
	if err != nil {
		return "", err
	}
	defer snapshot.Close() //nolint:errcheck // Only read.
	if _, err := etcd.ReadDefinitions(ctx, snapshot); err != nil {
		return "", err
	}
	return counts(ctx, snapshot, widgets())
}

// TestDamage: whatever a file holds, there is an answer or an error, and an answer
// is only trusted to be right where the checksum is.
func TestDamage(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	putMany(t, server.Client(), 2000)
	// Values that span pages.
	put(t, server.Client(), "/registry/example.com/widgets/a/large", "{"+strings.Repeat(" ", 100_000)+widget("v1")[1:])
	whole, err := os.ReadFile(save(t, server.Client()))
	if err != nil {
		t.Fatal(err)
	}
	const right = "v1: 1801, v1beta1: 200"
	name := filepath.Join(t.TempDir(), "db")
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(whole)
	if got, err := readFile(t.Context(), name, etcd.SnapshotOptions{}); got != right || err != nil {
		t.Fatalf("%s, %v", got, err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		damaged := append([]byte(nil), whole...)
		for range 1 + random.IntN(4) {
			damaged[random.IntN(len(damaged))] ^= 1 << random.IntN(8)
		}
		write(damaged)
		if got, err := readFile(t.Context(), name, etcd.SnapshotOptions{}); err == nil || !strings.Contains(err.Error(), "checksum is wrong") {
			t.Fatalf("a flipped bit: %q, %v", got, err)
		}
		_, _ = readFile(t.Context(), name, etcd.SnapshotOptions{SkipChecksum: true}) // It must come back.
		// Headers of pages, of which there are few, are what is followed.
		damaged = append(damaged[:0], whole[:len(whole)-32]...)
		for range 1 + random.IntN(4) {
			damaged[random.IntN(len(damaged)/4096)*4096+random.IntN(64)] ^= 1 << random.IntN(8)
		}
		write(damaged)
		_, _ = readFile(t.Context(), name, etcd.SnapshotOptions{})
	}
	for size := len(whole) - 32; size > 0; size -= 512 * (1 + random.IntN(120)) {
		for _, odd := range []int{0, 32, 100} {
			if size+odd >= len(whole)-32 {
				continue
			}
			write(whole[:size+odd])
			if got, err := readFile(t.Context(), name, etcd.SnapshotOptions{SkipChecksum: true}); err == nil {
				t.Fatalf("the first %d bytes of %d: %s", size+odd, len(whole), got)
			}
		}
	}
}

// TestPageThatLeadsBack: bbolt would follow it until the memory is full.
func TestPageThatLeadsBack(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	putMany(t, server.Client(), 2000)
	whole, err := os.ReadFile(save(t, server.Client()))
	if err != nil {
		t.Fatal(err)
	}
	damaged := append([]byte(nil), whole[:len(whole)-32]...)
	n := 0
	for page := 2 * 4096; page+4096 <= len(damaged); page += 4096 {
		if damaged[page+8] == 1 && damaged[page+9] == 0 { // A branch: its first entry becomes itself.
			copy(damaged[page+16+8:page+16+16], damaged[page:page+8])
			n++
		}
	}
	name := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(name, damaged, 0o600); err != nil || n == 0 {
		t.Fatalf("%d branches, %v", n, err)
	}
	got, err := readFile(t.Context(), name, etcd.SnapshotOptions{})
	if err == nil || !strings.Contains(err.Error(), "is reached twice") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestNoSnapshot: what people name by mistake.
func TestNoSnapshot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	other := filepath.Join(dir, "other.db")
	db, err := bolt.Open(other, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	running := filepath.Join(dir, "running.db")
	if db, err = bolt.Open(running, 0o600, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for path, want := range map[string]string{
		filepath.Join(dir, "none"):        "no such file",
		dir:                               "it is a directory",
		"/dev/null":                       "not a regular file",
		file("empty", nil):                "it is empty",
		file("text", []byte("hello")):     "no snapshot",
		file("zeros", make([]byte, 8192)): "damaged, or not an etcd snapshot",
		file("zeros-and-sum", make([]byte, 8224)): "checksum is wrong",
		other:   "another bbolt database",
		running: "etcd that runs",
	} {
		_, err := readFile(t.Context(), path, etcd.SnapshotOptions{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: want %q, got %v", path, want, err)
		}
	}
}

// TestInterrupt: a large file does not keep anybody waiting.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	server := startEtcd(t)
	putMany(t, server.Client(), 3000)
	file := save(t, server.Client())
	snapshot := openSnapshot(t, file, etcd.SnapshotOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	if _, err := counts(ctx, snapshot, widgets()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("reading: %v", err)
	}
	if _, err := etcd.OpenSnapshot(ctx, file, etcd.SnapshotOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("opening: %v", err)
	}
	live := openLive(t, etcd.LiveOptions{Endpoints: []string{server.Endpoint()}})
	if _, err := counts(ctx, live, widgets()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("asking: %v", err)
	}
}

func FuzzReadHead(f *testing.F) {
	for _, value := range []string{widget("v1"), "k8s:enc:aescbc:v1:key1:x", "k8s\x00\x0a\x18\x0a\x0eexample.com/v3\x12\x06Widget", "\xd9\xd9\xf7\xa1\x44kind\x41a", "[[[[", ""} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		head := etcd.ReadHead(value)
		if head.Provider != "" && head.Decoded() || !head.Decoded() && head.APIVersion+head.Kind != "" {
			t.Errorf("%q: %+v", value, head)
		}
	})
}

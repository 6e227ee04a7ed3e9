package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// dyingObjects is the number of objects that are rewritten meanwhile, fewer
// where two runs go over them.
const dyingObjects, fewer = 5000, 1500

// dyingWebhook promotes objects whose webhook dies after some of them were
// rewritten. It comes back after a while; 0 is never. It returns the result, and
// how many requests it sent while the webhook was dead.
func dyingWebhook(t *testing.T, b *bed, m *traffic, group string, n int64, after time.Duration, args ...string) (string, *webhook, result, int64) {
	t.Helper()
	hook := startWebhook(t)
	crdName := b.createCRD(t, hook.converted(group))
	b.createObjects(t, group, "v1beta1", int(n), "a", "b")
	var rewritten, meanwhile atomic.Int64
	m.stepIn(func(r *http.Request) {
		if hook.down.Load() && strings.Contains(r.URL.Path, group) {
			meanwhile.Add(1) // The server's own caches call the webhook, too.
		}
		if patchesObject(r) && strings.Contains(r.URL.Path, group) && rewritten.Add(1) == n/4 {
			hook.down.Store(true)
			if after > 0 {
				time.AfterFunc(after, func() { hook.down.Store(false) })
			}
		}
	})
	defer m.stepIn(nil)
	got := b.run(t, append([]string{"promote", "v1", crdName, "--yes", "--progress", "plain"}, args...)...)
	return crdName, hook, got, meanwhile.Load()
}

// TestWebhookDiesDuringMigration has it return: the run pauses and finishes.
func TestWebhookDiesDuringMigration(t *testing.T) {
	t.Parallel()
	m := &traffic{}
	b := start(t, testbed.InProcessOptions{Middleware: m.wrap})
	crdName, _, got, refused := dyingWebhook(t, b, m, "returns.example.com", dyingObjects, 6*time.Second)
	if got.code != 0 || !strings.Contains(got.stderr, "the conversion webhook does not answer: paused") ||
		!strings.Contains(got.stderr, "the conversion webhook answers again after") {
		t.Fatal(got)
	}
	// Those that were in flight, and one at a time after that.
	if refused > 60 {
		t.Errorf("%d requests while the webhook was dead", refused)
	}
	t.Logf("%d requests while the webhook was dead", refused)
	b.wantStored(t, "returns.example.com", map[string]int{"v1": dyingObjects})
	if stored := b.crd(t, crdName).Status.StoredVersions; !slices.Equal(stored, []string{"v1"}) {
		t.Errorf("storedVersions %q", stored)
	}
}

// TestWebhookStaysDead has it not return: nothing is trimmed, the exit code says
// that some objects are left, and running again finishes.
func TestWebhookStaysDead(t *testing.T) {
	t.Parallel()
	m := &traffic{}
	b := start(t, testbed.InProcessOptions{Middleware: m.wrap})
	group := "stays-dead.example.com"
	crdName, hook, got, refused := dyingWebhook(t, b, m, group, fewer, 0, "--webhook-patience", "4s")
	if got.code != 4 || !strings.Contains(got.stderr, "the conversion webhook did not answer for") ||
		!strings.Contains(got.stdout+got.stderr, "kubectl crdver promote v1 "+crdName) {
		t.Fatal(got)
	}
	if refused > 60 {
		t.Errorf("%d requests while the webhook was dead", refused)
	}
	if stored := b.crd(t, crdName).Status.StoredVersions; !slices.Equal(stored, []string{"v1beta1", "v1"}) {
		t.Errorf("storedVersions %q", stored)
	}
	hook.down.Store(false)
	b.must(t, 0, "promote", "v1", crdName, "--yes")
	b.wantStored(t, group, map[string]int{"v1": fewer})
}

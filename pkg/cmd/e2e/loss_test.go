package e2e_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestWebhookLosesAField has a webhook that forgets a field on the way to v1:
// promote is blocked, with the path and the count, and nothing was written.
func TestWebhookLosesAField(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	hook := startWebhook(t)
	group := "forgetful.example.com"
	crdName := b.createCRD(t, hook.converted(group))
	b.createObjects(t, group, "v1beta1", 7, "a")
	hook.forgets.Store(true)
	before := b.revisions(t)
	got := b.must(t, 3, "promote", "v1", crdName, "--yes")
	for _, text := range []string{"Blocked: the conversion to v1 and back loses or changes fields", "spec.image lost in 7 objects", "--allow-loss"} {
		if !strings.Contains(got.stdout+got.stderr, text) {
			t.Errorf("no %q in %s", text, got)
		}
	}
	if strings.Contains(got.stdout+got.stderr, "example.com/cron:v1") {
		t.Errorf("a value is printed: %s", got)
	}
	b.wantUnwritten(t, before)
	b.must(t, 3, "promote", "v1", crdName, "--yes", "--allow-loss", "spec.imageName")
	// What roundtrip found and somebody accepted is allowed, too.
	accepted := filepath.Join(t.TempDir(), "accepted.yaml")
	b.must(t, 0, "roundtrip", crdName, "--from", "v1beta1", "--to", "v1", "--write-accept", accepted)
	b.must(t, 0, "promote", "v1", crdName, "--dry-run=server", "--accept", accepted)
	b.must(t, 1, "promote", "v1", crdName, "--dry-run=server", "--accept", accepted+".none")
	got = b.must(t, 0, "promote", "v1", crdName, "--yes", "--allow-loss", "spec.image")
	if !strings.Contains(got.stdout+got.stderr, "spec.image is lost in 7 objects: --allow-loss or --accept allows it") {
		t.Error(got)
	}
	b.wantStored(t, group, map[string]int{"v1": 7})
}

// TestCertificateEndsTooSoon has a caBundle that ends before a migration could be
// over.
func TestCertificateEndsTooSoon(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	hook := startWebhook(t)
	hook.ca = certificateUntil(t, time.Now().Add(5*time.Minute))
	group := "ending.example.com"
	crdName := b.createCRD(t, hook.converted(group))
	got := b.must(t, 3, "promote", "v1", crdName, "--yes")
	if !strings.Contains(got.stdout+got.stderr, "the caBundle ends at") && !strings.Contains(got.stdout+got.stderr, "x509") {
		t.Error(got)
	}
}

// TestFlakyWebhook has a webhook that fails now and then: too little for the
// reads and dry runs of a rehearsal to be sure of, and enough to block.
func TestFlakyWebhook(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	hook := startWebhook(t)
	crdName := b.createCRD(t, hook.converted("flaky.example.com"))
	hook.flaky.Store(true)
	before := b.revisions(t)
	got := b.must(t, 3, "promote", "v1", crdName, "--yes")
	if !strings.Contains(got.stdout+got.stderr, "the conversion webhook is in trouble: ") ||
		!strings.Contains(got.stdout+got.stderr, "kubectl crdver webhook-check "+crdName) {
		t.Error(got)
	}
	b.wantUnwritten(t, before)
	hook.flaky.Store(false)
	b.must(t, 0, "promote", "v1", crdName, "--yes")
}

// TestWebhookLosesAFieldOnTheWayToAnUnservedVersion has a version that promote
// serves first: what the webhook loses is found then, before anything is stored.
func TestWebhookLosesAFieldOnTheWayToAnUnservedVersion(t *testing.T) {
	t.Parallel()
	b := start(t, testbed.InProcessOptions{})
	hook := startWebhook(t)
	group := "unserved-forgetful.example.com"
	definition := hook.converted(group)
	definition.Spec.Versions[1].Served = false
	crdName := b.createCRD(t, definition)
	b.createObjects(t, group, "v1beta1", 5, "a")
	hook.forgets.Store(true)
	got := b.must(t, 3, "promote", "v1", crdName, "--yes")
	if !strings.Contains(got.stdout+got.stderr, "the conversion to v1 and back loses or changes 1 field path, the first is spec.image in 5 objects") {
		t.Error(got)
	}
	b.wantStored(t, group, map[string]int{"v1beta1": 5})
	b.wantVersions(t, crdName, []string{"v1beta1 storage", "v1"}, []string{"v1beta1"})
}

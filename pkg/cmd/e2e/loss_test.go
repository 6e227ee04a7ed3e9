package e2e_test

import (
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
	got = b.must(t, 0, "promote", "v1", crdName, "--yes", "--allow-loss", "spec.image")
	if !strings.Contains(got.stdout+got.stderr, "spec.image is lost in 7 objects: --allow-loss allows it") {
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

package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// TestBrownedOut has a version that is not served because of a brownout, which says
// nothing of its life: it is neither to be retired nor removable. What is next is to
// serve it again.
func TestBrownedOut(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	mark := func(version string, until time.Time) string {
		return lifecycle.MarkText(v1alpha1.Brownout{Version: version, By: "bob@host", Until: metav1.NewTime(until)})
	}
	const restore, name = "restore v1beta1", "crontabs.stable.example.com"
	for title, test := range map[string]struct {
		old, mark string
		gone      bool
		next, why string
		blocked   bool
	}{
		"under way":           {old: "v1beta1 unserved", mark: mark("v1beta1", now.Add(time.Hour)), next: restore, why: "is under way until", blocked: true},
		"its process is gone": {old: "v1beta1 unserved", mark: mark("v1beta1", now.Add(time.Hour)), gone: true, next: restore, why: "its process is gone", blocked: true},
		"overdue":             {old: "v1beta1 unserved", mark: mark("v1beta1", now.Add(-time.Hour)), next: restore, why: "is overdue", blocked: true},
		"deprecated":          {old: "v1beta1 deprecated unserved", mark: mark("v1beta1", now.Add(-time.Hour)), next: restore, why: "is overdue", blocked: true},
		"edited":              {old: "v1beta1 unserved", mark: `{"version":"v1beta1","more":1}`, next: restore, why: "because of a brownout", blocked: true},
		"cannot be read":      {old: "v1beta1 unserved", mark: "{", blocked: true},
		"of another version":  {old: "v1beta1 unserved", mark: mark("v1alpha1", now), next: "retire v1beta1", why: "not served"},
		"served again":        {old: "v1beta1", mark: mark("v1beta1", now)},
		"none":                {old: "v1beta1 unserved", next: "retire v1beta1", why: "not served"},
	} {
		t.Run(title, func(t *testing.T) {
			c := live([]string{"v1"}, "*v1", test.old)
			if test.mark != "" {
				c.Annotations = map[string]string{lifecycle.BrownoutAnnotation: test.mark}
			}
			s := lifecycle.New(c, lifecycle.Observations{Now: now, BrownoutGone: test.gone})
			want := ""
			if test.next != "" {
				want = "kubectl crdver " + test.next + " " + name
			}
			if command, why := s.Next(); command != want || !strings.Contains(why, test.why) {
				t.Errorf("next is %q (%s), want %q (%s)", command, why, want, test.why)
			}
			blocked := false
			for _, blocker := range s.MayRemove("v1beta1") {
				blocked = blocked || blocker.ID == lifecycle.BlockBrownout && blocker.Resolve == "kubectl crdver restore v1beta1 "+name
			}
			if blocked != test.blocked {
				t.Errorf("blocked by the brownout: %t, want %t: %+v", blocked, test.blocked, s.MayRemove("v1beta1"))
			}
		})
	}
}

// TestHoldNotes tells a run that is at work from one whose process is gone.
func TestHoldNotes(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	c := live([]string{"v1"}, "*v1")
	c.Annotations = map[string]string{lifecycle.HoldAnnotation: lifecycle.HoldText(v1alpha1.Hold{
		ID: "1", Holder: "bob@host, process 7", Command: "rescue", StartedAt: at, RenewedAt: at,
	})}
	for gone, want := range map[bool]string{
		false: `at work: bob@host, process 7 runs "rescue" since 2026-11-30T12:00:00Z, last heard of at 12:00:00Z`,
		true: `bob@host, process 7 ran "rescue" since 2026-11-30T12:00:00Z, last heard of at 12:00:00Z, ` +
			"but its process is gone; the next run takes over",
	} {
		if notes := lifecycle.New(c, lifecycle.Observations{HoldGone: gone}).Notes(); len(notes) != 1 || notes[0] != want {
			t.Errorf("gone %t: got %q, want %q", gone, notes, want)
		}
	}
}

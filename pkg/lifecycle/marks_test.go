package lifecycle_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
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

// TestRescued tells what is there for a rescue only from what somebody made their own.
func TestRescued(t *testing.T) {
	keep := true
	preserving := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}}
	other := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
		Type: "object", XPreserveUnknownFields: &keep, Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object"}},
	}}
	for title, test := range map[string]struct {
		version apiextensionsv1.CustomResourceDefinitionVersion
		marked  bool
		want    bool
	}{
		"left by a loss":            {apiextensionsv1.CustomResourceDefinitionVersion{Schema: preserving}, false, true},
		"read without schemas":      {apiextensionsv1.CustomResourceDefinitionVersion{}, false, true},
		"killed in its rehearsal":   {apiextensionsv1.CustomResourceDefinitionVersion{Schema: preserving, Served: true}, true, true},
		"served by somebody":        {apiextensionsv1.CustomResourceDefinitionVersion{Schema: preserving, Served: true}, false, false},
		"the storage version":       {apiextensionsv1.CustomResourceDefinitionVersion{Schema: preserving, Storage: true}, false, false},
		"with another schema":       {apiextensionsv1.CustomResourceDefinitionVersion{Schema: other}, false, false},
		"served, with another one":  {apiextensionsv1.CustomResourceDefinitionVersion{Schema: other, Served: true}, true, false},
		"of another name, not here": {apiextensionsv1.CustomResourceDefinitionVersion{Name: "v9", Schema: preserving}, false, false},
	} {
		t.Run(title, func(t *testing.T) {
			if test.version.Name == "" {
				test.version.Name = "v1alpha1"
			}
			c := crd.CRD{CustomResourceDefinition: &apiextensionsv1.CustomResourceDefinition{}}
			c.Annotations = map[string]string{lifecycle.RescuedAnnotation: "v1alpha1"}
			if test.marked {
				c.Annotations[lifecycle.RehearsalAnnotation("v1alpha1")] = "served"
			}
			c.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{test.version}
			if got := slices.Equal(lifecycle.Rescued(c), []string{"v1alpha1"}); got != test.want {
				t.Errorf("got %q", lifecycle.Rescued(c))
			}
		})
	}
}

//go:build controlplane

package fulltest_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func policyScenarios() []scenario {
	return []scenario{
		{name: "policy found by the rehearsal", run: testPolicyRehearsal},
		{name: "policy during the migration", run: testPolicyMeanwhile},
		{name: "policy on the CRD", run: testPolicyOnCRD},
		{name: "required field", run: testRequiredField},
	}
}

// policy creates a ValidatingAdmissionPolicy on updates and waits until a probe
// is refused. It returns a function that deletes it and waits until the probe
// is not.
func policy(t *testing.T, bed *testbed.Full, name, expression string, rule admissionv1.Rule, labels map[string]string, probe func(*testing.T) error) func(*testing.T) {
	t.Helper()
	remove, err := testbed.CreatePolicy(t.Context(), bed.Config(), testbed.Policy{
		Name: name, Rule: rule, Labels: labels, Expression: expression, Message: "it is frozen",
	})
	if err != nil {
		t.Fatal(err)
	}
	refused := func() bool {
		err := probe(t)
		if err != nil && !strings.Contains(err.Error(), name) && !apierrors.IsConflict(err) {
			t.Logf("probe: %v", err)
		}
		return err != nil && strings.Contains(err.Error(), name)
	}
	eventually(t, "policy "+name+" refuses", 2*time.Minute, refused)
	return func(t *testing.T) {
		t.Helper()
		if err := remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "policy "+name+" is gone", 2*time.Minute, func() bool { return probe(t) == nil })
	}
}

// freeze refuses updates of the subject's objects for which the expression does
// not hold; probe is the name of one in the namespace default. The probe changes
// a label, which is never stored.
func (s *subject) freeze(t *testing.T, name, expression, probe string) func(*testing.T) {
	t.Helper()
	rule := admissionv1.Rule{APIGroups: []string{s.group}, APIVersions: []string{"*"}, Resources: []string{testbed.CronTabPlural}}
	return policy(t, s.bed, name, expression, rule, nil, func(t *testing.T) error {
		t.Helper()
		options := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
		_, err := s.objects(t, "v1", "default").Patch(t.Context(), probe, types.MergePatchType, []byte(`{"metadata":{"labels":{"probe":"x"}}}`), options)
		return err
	})
}

// testPolicyRehearsal has an object that a policy does not let anybody update.
func testPolicyRehearsal(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "frozen.example.com", 5, "v1beta1", "v1")
	thaw := s.freeze(t, "frozen-crontab", "object.metadata.name != 'object-000002'", "object-000002")
	before := s.snapshot(t)
	for _, args := range [][]string{{"--yes"}, {"--dry-run=server"}, {"--yes", "-o", "json"}} {
		r := s.run(t, append([]string{"promote", "v1", s.name}, args...)...)
		r.want(t, 3, "refuse to rewrite 1 of 5 objects", "default/object-000002: AdmissionDenied", "frozen-crontab", "it is frozen")
	}
	s.run(t, "migrate", s.name, "--force", "--yes").want(t, 3, "default/object-000002", "frozen-crontab")
	s.unwritten(t, before)
	thaw(t)
	s.run(t, "promote", "v1", s.name, "--yes").want(t, 0)
	s.stored(t, map[string]int{"v1": 5})
}

// testPolicyMeanwhile creates the policy when the storage version was changed
// and the migration is under way.
func testPolicyMeanwhile(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "meanwhile.example.com", 60, "v1beta1", "v1")
	last := "object-000058" // Of the namespace default, whose objects have even numbers.
	var thaw func(*testing.T)
	r := s.runWatched(t, "StepFinished", "set-storage", func() {
		thaw = s.freeze(t, "meanwhile-crontab", fmt.Sprintf("object.metadata.name != '%s'", last), last)
	}, "promote", "v1", s.name, "--yes", "--qps", "6", "--concurrency", "1")
	r.want(t, 4, "1 of 60 objects could not be rewritten", "default/"+last, "meanwhile-crontab", "it is frozen",
		"storedVersions [v1beta1, v1]", "not run: verify, trim", "to continue: kubectl crdver promote v1 "+s.name)
	s.stored(t, map[string]int{"v1": 59, "v1beta1": 1})
	if got := fmt.Sprint(s.crd(t).Status.StoredVersions); got != "[v1beta1 v1]" {
		t.Errorf("storedVersions %s", got)
	}
	before := s.snapshot(t)
	s.run(t, "promote", "v1", s.name, "--yes").want(t, 3, "default/"+last, "meanwhile-crontab")
	s.unwritten(t, before)
	thaw(t)
	r = s.run(t, "promote", "v1", s.name, "--yes", "-o", "json")
	r.want(t, 0)
	report := decode[v1alpha1.Report](t, r)
	for _, step := range report.Steps {
		if step.ID == "migrate" && (step.Objects == nil || step.Objects.Rewritten != 1) {
			t.Errorf("the second run rewrote %+v, want the one that was left", step.Objects)
		}
	}
	s.stored(t, map[string]int{"v1": 60})
	if got := fmt.Sprint(s.crd(t).Status.StoredVersions); got != "[v1]" {
		t.Errorf("storedVersions %s", got)
	}
}

// testPolicyOnCRD guards the CRD itself.
func testPolicyOnCRD(t *testing.T, bed *testbed.Full, _ *subject) {
	crd := cronTabs("guarded.example.com", "v1beta1", "v1")
	crd.Labels = map[string]string{"guarded": "yes"}
	s := subjectOf(t, bed, crd, 2)
	rule := admissionv1.Rule{APIGroups: []string{apiextensions}, APIVersions: []string{"*"}, Resources: []string{crds}}
	probe := []byte(`[{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true}]`)
	open := policy(t, bed, "crd-guard", "object.spec.versions.all(v, v.name != 'v1' || !v.storage)", rule, crd.Labels, func(t *testing.T) error {
		t.Helper()
		_, err := s.crds(t).Patch(t.Context(), s.name, types.JSONPatchType, probe, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	before := s.snapshot(t)
	r := s.run(t, "promote", "v1", s.name, "--yes")
	r.want(t, 3, "would refuse the step set-storage (server dry run)", "crd-guard", "it is frozen")
	s.run(t, "promote", "v1", s.name, "--dry-run=server").want(t, 3, "crd-guard")
	s.unwritten(t, before)
	open(t)
	s.run(t, "promote", "v1", s.name, "--yes").want(t, 0)
	s.stored(t, map[string]int{"v1": 2})
}

// testRequiredField has an object that breaks what only the new version
// requires, at the root of the schema: no ratcheting spares it there.
func testRequiredField(t *testing.T, bed *testbed.Full, _ *subject) {
	crd := cronTabs("required.example.com", "v1beta1", "v1")
	testbed.Version(crd, "v1").Schema.OpenAPIV3Schema.Required = []string{"status"}
	s := subjectOf(t, bed, crd, 3)
	before := s.snapshot(t)
	s.run(t, "promote", "v1", s.name, "--yes").want(t, 3, "refuse to rewrite 3 of 3 objects", "Invalid", "status: Required value")
	s.unwritten(t, before)
}

// runWatched runs the plugin with JSON progress and calls back when the event of
// a step comes. The plugin goes on meanwhile.
func (s *subject) runWatched(t *testing.T, event, step string, callback func(), args ...string) result {
	t.Helper()
	done := make(chan struct{})
	watch := &watcher{texts: []string{fmt.Sprintf(`"type":"%s"`, event), fmt.Sprintf(`"step":"%s"`, step)}, seen: make(chan struct{})}
	finished := make(chan result, 1)
	go func() {
		finished <- s.runTo(t, watch, s.kubeconfig, append(args, "--progress", "json")...)
		close(done)
	}()
	select {
	case <-watch.seen:
		callback()
	case <-done:
		t.Errorf("%q ended without the event %s of %s", args, event, step)
	}
	return <-finished
}

// watcher looks for a line that has all texts.
type watcher struct {
	mu    sync.Mutex
	texts []string
	all   bytes.Buffer
	seen  chan struct{}
	found bool
}

// Write implements io.Writer.
func (w *watcher) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.Write(b)
	for line := range bytes.Lines(b) {
		matches := !w.found && len(w.texts) > 0
		for _, text := range w.texts {
			matches = matches && bytes.Contains(line, []byte(text))
		}
		if matches {
			w.found = true
			close(w.seen)
		}
	}
	return len(b), nil
}

// String returns what was written.
func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

//go:build controlplane

package fulltest_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionreviewv1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func webhookScenarios() []scenario {
	return []scenario{
		{name: "admission webhook", run: testWebhook},
		{name: "slow admission webhook", run: testSlowWebhook},
	}
}

// hook is a validating admission webhook in this process.
type hook struct {
	server *httptest.Server
	// decide returns why a request is refused, or "".
	decide atomic.Pointer[func(*admissionreviewv1.AdmissionRequest) string]
}

// newHook starts a webhook that admits everything, and registers it for the
// subject's objects.
func newHook(t *testing.T, s *subject, name string) *hook {
	t.Helper()
	h := &hook{}
	h.set(func(*admissionreviewv1.AdmissionRequest) string { return "" })
	h.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionreviewv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "not an AdmissionReview", http.StatusBadRequest)
			return
		}
		why := (*h.decide.Load())(review.Request)
		review.Response = &admissionreviewv1.AdmissionResponse{UID: review.Request.UID, Allowed: why == ""}
		if why != "" {
			review.Response.Result = &metav1.Status{Message: why}
		}
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Logf("webhook %s: %v", name, err)
		}
	}))
	t.Cleanup(h.server.Close)
	url, timeout := h.server.URL+"/validate", int32(20)
	fail, none, scope := admissionv1.Fail, admissionv1.SideEffectClassNone, admissionv1.AllScopes
	_, err := kubeClient(t, s.bed).AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "guard." + s.group,
			ClientConfig: admissionv1.WebhookClientConfig{
				URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw}),
			},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.OperationAll},
				Rule: admissionv1.Rule{
					APIGroups: []string{s.group}, APIVersions: []string{"v1"}, Resources: []string{"*/*"}, Scope: &scope,
				},
			}},
			FailurePolicy: &fail, SideEffects: &none, TimeoutSeconds: &timeout, AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The server calls it from some moment on.
	var called atomic.Bool
	h.set(func(*admissionreviewv1.AdmissionRequest) string { called.Store(true); return "" })
	eventually(t, "webhook "+name+" is called", 2*time.Minute, func() bool {
		_, err := s.objects(t, "v1", "default").Patch(t.Context(), "object-000000", types.MergePatchType, []byte(`{}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Fatal(err)
		}
		return called.Load()
	})
	h.set(func(*admissionreviewv1.AdmissionRequest) string { return "" })
	return h
}

func (h *hook) set(decide func(*admissionreviewv1.AdmissionRequest) string) { h.decide.Store(&decide) }

// testWebhook has a webhook that refuses to update one object: always, only for
// real, and no more.
func testWebhook(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "hooked.example.com", 6, "v1beta1", "v1")
	h := newHook(t, s, "hooked-configuration")
	frozen := func(request *admissionreviewv1.AdmissionRequest) string {
		if request.Operation == admissionreviewv1.Update && request.Name == "object-000003" {
			return "this one is not to be touched"
		}
		return ""
	}
	h.set(frozen)
	before := s.snapshot(t)
	r := s.run(t, "promote", "v1", s.name, "--yes")
	r.want(t, 3, "refuse to rewrite 1 of 6 objects", "other/object-000003: AdmissionDenied", `"guard.hooked.example.com"`,
		"this one is not to be touched",
		"each rewrite passes the admission webhooks hooked-configuration/guard.hooked.example.com (validating, timeout 20s)")
	s.unwritten(t, before)

	h.set(func(request *admissionreviewv1.AdmissionRequest) string {
		if request.DryRun != nil && *request.DryRun {
			return ""
		}
		return frozen(request)
	})
	r = s.run(t, "promote", "v1", s.name, "--yes")
	r.want(t, 4, "1 of 6 objects could not be rewritten", "other/object-000003", `"guard.hooked.example.com"`, "not run: verify, trim")
	s.stored(t, map[string]int{"v1": 5, "v1beta1": 1})
	if got := fmt.Sprint(s.crd(t).Status.StoredVersions); got != "[v1beta1 v1]" {
		t.Errorf("storedVersions %s", got)
	}
	h.set(func(*admissionreviewv1.AdmissionRequest) string { return "" })
	s.run(t, "promote", "v1", s.name, "--yes").want(t, 0)
	s.stored(t, map[string]int{"v1": 6})
}

// testSlowWebhook holds a write that began before the storage version changed
// until the migration has passed: it is persisted at the old version all the
// same, and the verification finds it.
func testSlowWebhook(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "slow.example.com", 3, "v1beta1", "v1")
	h := newHook(t, s, "slow-configuration")
	held, release := make(chan struct{}), make(chan struct{})
	h.set(func(request *admissionreviewv1.AdmissionRequest) string {
		if request.Name == "held" && request.Operation == admissionreviewv1.Create {
			close(held)
			<-release
		}
		return ""
	})
	written := make(chan error, 1)
	go func() {
		_, err := s.objects(t, "v1", "default").Create(t.Context(), s.object("v1", "default", "held", 9), metav1.CreateOptions{})
		s.stored(t, map[string]int{"v1": 3, "v1beta1": 1}) // Long after the flip and the migration.
		written <- err
	}()
	<-held
	begin := time.Now()
	// The write is let go when the first verify pass is over.
	time.AfterFunc(15*time.Second, func() { close(release) })
	r := s.run(t, "promote", "v1", s.name, "--yes", "-o", "json")
	took := time.Since(begin)
	if err := <-written; err != nil {
		t.Fatalf("the held write: %v", err)
	}
	r.want(t, 0, "that pass started at least 35s after the change of the storage version", "the pass that counts starts in")
	s.stored(t, map[string]int{"v1": 4})
	if took < storagemigration.WriteTimeout {
		t.Errorf("promote took %s, want at least %s", took, storagemigration.WriteTimeout)
	}
	report := decode[v1alpha1.Report](t, r)
	if report.Evidence == nil || !report.Evidence.Complete || report.Evidence.Passes < 2 {
		t.Errorf("evidence %+v", report.Evidence)
	}
	r.steps(t)

	// Long after the flip nothing has to be waited for.
	r = s.run(t, "migrate", s.name, "--yes", "--force")
	r.want(t, 0)
	r.lacks(t, "the pass that counts starts in")

	// The next change of spec.versions ends the service of v1beta1. A write at it that
	// began before ends later, and leaves no entry of it behind all the same.
	late, end := make(chan struct{}), make(chan struct{})
	h.set(func(request *admissionreviewv1.AdmissionRequest) string {
		if request.Name == "late" && request.Operation == admissionreviewv1.Create {
			close(late)
			<-end
		}
		return ""
	})
	go func() {
		_, err := s.objects(t, "v1beta1", "default").Create(t.Context(), s.object("v1beta1", "default", "late", 10), metav1.CreateOptions{})
		written <- err
	}()
	<-late
	time.AfterFunc(15*time.Second, func() { close(end) })
	r = s.run(t, "retire", "v1beta1", s.name, "--yes", "--allow-in-use")
	if err := <-written; err != nil {
		t.Fatalf("the late write: %v", err)
	}
	r.want(t, 0, "retired v1beta1", "at least 35s after the last change of spec.versions", "the pass that counts starts in")
	if strings.Count(r.stderr, "slow-configuration/guard.slow.example.com") == 0 {
		t.Error("retire does not name the webhook")
	}
	s.stored(t, map[string]int{"v1": 5})
	object, err := s.objects(t, "v1", "default").Get(t.Context(), "late", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range object.GetManagedFields() {
		if entry.APIVersion != s.group+"/v1" {
			t.Errorf("managedFields entry of %s at %s", entry.Manager, entry.APIVersion)
		}
	}
}

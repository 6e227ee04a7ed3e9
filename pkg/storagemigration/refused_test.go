package storagemigration_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// startWithBare starts a server with n CronTabs, and more that have no spec. v1, the
// storage version by then, demands one, v1beta1 does not.
func startWithBare(t *testing.T, n int, names ...string) *testbed.InProcess {
	t.Helper()
	bed := startWithCronTabs(t, n, testbed.InProcessOptions{})
	client := dynamicClient(t, bed.Config(), "v1beta1").Namespace("a")
	for _, name := range names {
		object := testbed.NewCronTab("v1beta1", "a", name, 0)
		delete(object.Object, "spec")
		if _, err := client.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	updateCRD(t, bed, func(crd *apiextensionsv1.CustomResourceDefinition) {
		testbed.Version(crd, "v1").Schema.OpenAPIV3Schema.Required = []string{"spec"}
	})
	flipAndWait(t, bed)
	return bed
}

// Fact 12: ratcheting does not forgive `required` at the root of the schema.
func TestFact12PassListsWhatTheSchemaRefuses(t *testing.T) {
	t.Parallel()
	const n = 120
	bed := startWithBare(t, n, "bare-1", "bare-2")
	objects := cronTabs(t, bed.Config(), "v1")
	result, err := storagemigration.Pass(t.Context(), objects, storagemigration.PassOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", result)
	wantSum(t, result)
	if !result.Complete || result.Counts.Listed != n+2 || result.Counts.Refused != 2 || len(result.Failures) != 2 {
		t.Fatalf("result: %+v", result)
	}
	for i, failure := range result.Failures {
		if want := []string{"bare-1", "bare-2"}[i]; failure.Namespace != "a" || failure.Name != want || failure.UID == "" ||
			failure.Reason != "Invalid" || failure.Outcome != "refused" || failure.By != v1alpha1.PartySchema || !strings.Contains(failure.Message, "spec: Required value") {
			t.Errorf("failure %d: %+v", i, failure)
		}
	}
	if groups := result.Groups; len(groups) != 1 || groups[0].Count != 2 || groups[0].By != v1alpha1.PartySchema || len(groups[0].Examples) != 2 ||
		groups[0].Examples[0] != "a/bare-1" || groups[0].Resolve == "" {
		t.Errorf("groups: %+v", groups)
	}
	wantStored(t, bed, map[string]int{"v1": n, "v1beta1": 2})

	// Verification says so after one pass; no other pass would help.
	verified, err := storagemigration.Verify(t.Context(), objects, storagemigration.VerifyOptions{})
	if err != nil || verified.Clean || verified.Evidence.Complete || verified.Evidence.Passes != 1 || verified.Reason != "2 of 122 objects could not be rewritten" {
		t.Errorf("%+v, %v", verified, err)
	}
	// Through the old version, which is still served, they can be rewritten.
	old := cronTabs(t, bed.Config(), "v1beta1")
	if result, err = storagemigration.Pass(t.Context(), old, storagemigration.PassOptions{}); err != nil || result.Counts.Rewritten != 2 || result.Counts.Failed != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	wantStored(t, bed, map[string]int{"v1": n + 2})
}

// startWithHuge starts a server with n CronTabs at v1beta1, the eighth of which the
// webhook cannot convert to v1, the storage version by then: v1 cannot be listed.
func startWithHuge(t *testing.T, n int) (*testbed.InProcess, cluster.Objects) {
	t.Helper()
	bed := start(t, testbed.InProcessOptions{})
	converter, err := testbed.StartConverter(t.Context(), testbed.ConverterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(converter.Stop)
	crd := testbed.HostPorts(testbed.CronTabGroup)
	crd.Spec.Conversion = converter.Conversion("v1")
	if _, err := testbed.CreateCRD(t.Context(), bed.Config(), crd); err != nil {
		t.Fatal(err)
	}
	client := dynamicClient(t, bed.Config(), "v1beta1").Namespace("a")
	for i := range n {
		object := testbed.NewHostPort(testbed.CronTabGroup, "v1beta1", "a", fmt.Sprintf("object-%02d", i), i)
		if i == 7 {
			object.Object["spec"].(map[string]any)["settings"] = map[string]any{"text": strings.Repeat("x", 300_000)}
		}
		if _, err := client.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	converter.SetFault(testbed.FaultHugeAnnotation)
	flipAndWait(t, bed) // The server gets a new cache, which it cannot fill.
	objects := cronTabs(t, bed.Config(), "v1")
	waitUntil(t, func() bool {
		_, err := objects.ListMetadata(t.Context(), cluster.PageOptions{Limit: 500})
		return err != nil
	})
	return bed, objects
}

// Case 57: one object that the webhook cannot convert fails the whole list at a
// version. Listed at another one, it alone is refused.
func TestCase57PassListsElsewhere(t *testing.T) {
	t.Parallel()
	const n = 12
	bed, objects := startWithHuge(t, n)
	options := storagemigration.PassOptions{ListFor: time.Millisecond, PageSize: 5}
	if result, err := storagemigration.Pass(t.Context(), objects, options); err == nil || result.Complete || !strings.Contains(err.Error(), "Too long") {
		t.Errorf("%+v, %v", result, err)
	}
	options.ListThrough = []cluster.Objects{cronTabs(t, bed.Config(), "v1beta1")}
	var notices []string
	options.Notice = func(text string) { notices = append(notices, text) }
	asked := atomic.Int64{}
	guarded := storagemigration.Guarded(objects, func(context.Context, types.NamespacedName) error { asked.Add(1); return nil })
	result, err := storagemigration.Pass(t.Context(), guarded, options)
	if err != nil {
		t.Fatal(err)
	}
	wantSum(t, result)
	if c := result.Counts; !result.Complete || c.Listed != n || c.Refused != 1 || c.Rewritten+c.Current != n-1 ||
		len(result.Failures) != 1 || result.Failures[0].Name != "object-07" || result.Failures[0].Reason != "ConversionFailed" {
		t.Errorf("%+v", result)
	}
	if len(notices) != 1 || !strings.Contains(notices[0], "listing them at v1beta1") {
		t.Errorf("notices %q", notices)
	}
	wantStored(t, bed, map[string]int{"v1": n - 1, "v1beta1": 1})
	if asked.Load() < n {
		t.Errorf("the guard was asked about %d", asked.Load())
	}
	// A version that is not served is no help: the first reason is given.
	options.ListThrough = []cluster.Objects{cronTabs(t, bed.Config(), "v0")}
	if _, err := storagemigration.Pass(t.Context(), objects, options); err == nil || !strings.Contains(err.Error(), "Too long") {
		t.Errorf("%v", err)
	}
}

// The detour of an object is no way around the resourceVersion: what somebody
// writes after it was looked at is not overwritten. What the detour would lose, or
// nobody could look at, stays refused, in the words of the schema.
func TestDetourAmongWriters(t *testing.T) {
	t.Parallel()
	const n = 20
	bed := startWithBare(t, n, "bare-lossy", "bare-sound", "bare-written")
	old := cronTabs(t, bed.Config(), "v1beta1")
	var asked []string
	options := storagemigration.PassOptions{Concurrency: 1, Detour: &storagemigration.Detour{
		Objects: old,
		Takes: func(ctx context.Context, key types.NamespacedName) error {
			asked = append(asked, key.Name)
			switch key.Name {
			case "bare-lossy":
				return errors.New("it would lose something")
			case "bare-written":
				_, err := old.Patch(ctx, key, cluster.PatchRequest{Type: types.MergePatchType, Body: []byte(`{"metadata":{"labels":{"they":"wrote"}}}`)})
				return err
			}
			return nil
		},
	}}
	result, err := storagemigration.Pass(t.Context(), cronTabs(t, bed.Config(), "v1"), options)
	if err != nil {
		t.Fatal(err)
	}
	wantSum(t, result)
	if c := result.Counts; c.Refused != 1 || c.Changed != 1 || c.Rewritten+c.Current != n+1 || len(asked) != 3 ||
		len(result.Failures) != 1 || result.Failures[0].Name != "bare-lossy" || !strings.Contains(result.Failures[0].Message, "spec: Required value") {
		t.Errorf("%+v, asked %q", result, asked)
	}
	all := stored(t, bed)
	if got := all["a/bare-sound"].Version(); got != "v1" {
		t.Errorf("bare-sound is persisted at %s", got)
	}
	if got := all["a/bare-lossy"].Version(); got != "v1beta1" {
		t.Errorf("bare-lossy is persisted at %s", got)
	}
	if !strings.Contains(string(all["a/bare-written"].Raw), `"they":"wrote"`) {
		t.Errorf("what was written meanwhile is lost: %s", all["a/bare-written"].Raw)
	}
}

// A webhook may refuse with any code. One that refuses with 404 or 409 must not
// make an object count as deleted or as written by somebody else.
func TestPassIsNotFooledByAWebhook(t *testing.T) {
	t.Parallel()
	bed := startWithCronTabs(t, 10, testbed.InProcessOptions{Admission: refusing{
		name(1): refusal(http.StatusNotFound, metav1.StatusReasonNotFound, name(1)),
		name(2): refusal(http.StatusConflict, metav1.StatusReasonConflict, name(2)),
		name(3): refusal(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, name(3)),
		name(4): refusal(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, name(4)),
		name(5): apierrors.NewForbidden(testbed.CronTabResource("v1").GroupResource(), name(5),
			errorText("ValidatingAdmissionPolicy 'no-spec' with binding 'everywhere' denied request: because")),
	}})
	flipAndWait(t, bed)
	result, err := storagemigration.Pass(t.Context(), cronTabs(t, bed.Config(), "v1"), storagemigration.PassOptions{RetryFor: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", result)
	if result.Counts.Deleted != 0 || result.Counts.Changed != 0 || result.Counts.Refused != 5 || result.Counts.Retries != 0 {
		t.Errorf("counts: %+v", result.Counts)
	}
	for _, failure := range result.Failures {
		if failure.Reason != "AdmissionDenied" || failure.ByName == "" {
			t.Errorf("failure: %+v", failure)
		}
	}
	wantStored(t, bed, map[string]int{"v1beta1": 5, "v1": 5})
}

type errorText string

func (e errorText) Error() string { return string(e) }

// refusal is what the server makes of a webhook that refuses with a code.
func refusal(code int32, reason metav1.StatusReason, name string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason,
		Message: `admission webhook "guard.example.com" denied the request: go away`,
		Details: &metav1.StatusDetails{Group: testbed.CronTabGroup, Kind: testbed.CronTabPlural, Name: name},
	}}
}

// refusing refuses updates of some objects.
type refusing map[string]error

func (r refusing) Handles(operation admission.Operation) bool { return operation == admission.Update }

func (r refusing) Validate(_ context.Context, attributes admission.Attributes, _ admission.ObjectInterfaces) error {
	return r[attributes.GetName()]
}

// When the version stops being served in the middle of a pass, each patch is
// answered 404. The objects are not gone.
func TestPassIsNotFooledByAnUnservedVersion(t *testing.T) {
	t.Parallel()
	const n = 200
	bed := startWithCronTabs(t, n, testbed.InProcessOptions{})
	flipAndWait(t, bed)
	unserve := onceAfter(50, func() {
		updateCRD(t, bed, func(crd *apiextensionsv1.CustomResourceDefinition) {
			testbed.SetStorageVersion(crd, "v1beta1")
			testbed.Version(crd, "v1").Served = false
		})
	})
	result, err := storagemigration.Pass(t.Context(), cronTabs(t, bed.Config(), "v1"), storagemigration.PassOptions{
		Concurrency: 1,
		Patch: func(object *metav1.PartialObjectMetadata) ([]byte, bool, error) {
			unserve()
			return storagemigration.NoOpPatch(object)
		},
	})
	t.Logf("%+v, %v", result.Counts, err)
	if err != nil {
		t.Fatal(err)
	}
	if result.Counts.Deleted != 0 || result.Counts.Failed == 0 {
		t.Errorf("counts: %+v", result.Counts)
	}
}

func onceAfter(calls int, do func()) func() {
	return func() {
		if calls--; calls == 0 {
			do()
		}
	}
}

// Facts 1, 14 and 15: after a wrong trim and the removal of the version that
// objects are persisted at, the pass says what is wrong, soon, with and without
// a selector (with one, the server answers 429 "storage is (re)initializing").
func TestFact14PassTellsWhyNothingCanBeListed(t *testing.T) {
	t.Parallel()
	bed := startWithCronTabs(t, 30, testbed.InProcessOptions{})
	flipAndWait(t, bed)
	client, err := clientset.NewForConfig(bed.Config())
	if err != nil {
		t.Fatal(err)
	}
	trim := []byte(`{"status":{"storedVersions":["v1"]}}`)
	_, err = client.ApiextensionsV1().CustomResourceDefinitions().Patch(t.Context(), testbed.CronTabCRD, types.MergePatchType, trim, metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	crd, err := crds.Get(t.Context(), testbed.CronTabCRD, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{*testbed.Version(crd, "v1")}
	if _, err := crds.Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	objects := cronTabs(t, bed.Config(), "v1")
	waitUntil(t, func() bool {
		_, err := objects.ListMetadata(t.Context(), cluster.PageOptions{Limit: 500})
		return err != nil
	})
	for what, options := range map[string]storagemigration.PassOptions{
		"whole":    {},
		"selector": {LabelSelector: "app=web"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			_, direct := objects.ListMetadata(t.Context(), cluster.PageOptions{Limit: 500, LabelSelector: options.LabelSelector})
			t.Logf("the server says: %v", direct)
			if what == "selector" && !cluster.Initializing(direct) {
				t.Errorf("not the 429 that the test is about")
			}
			options.ListFor = 3 * time.Second
			begin := time.Now()
			result, err := storagemigration.Pass(t.Context(), objects, options)
			if err == nil || result.Complete {
				t.Fatalf("%+v, %v", result, err)
			}
			t.Logf("after %s: %v", time.Since(begin), err)
			if took := time.Since(begin); took > 30*time.Second {
				t.Errorf("it took %s to say so", took)
			}
			failure := cluster.Explain(err)
			t.Logf("%+v", failure)
			if failure.Reason != cluster.ReasonConversionFailed || !strings.Contains(failure.Message, "request to convert CR from an invalid group/version: stable.example.com/v1beta1") {
				t.Errorf("%+v", failure)
			}
		})
	}
}

func waitUntil(t testing.TB, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not become so")
		}
	}
}

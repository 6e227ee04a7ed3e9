package conversion_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/dynamic"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion"
	"github.com/crdver/kubectl-crdver/pkg/schema"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// TestRehearseLossWithNone goes through what shows a loss with None, and what
// does not, before and after the storage version changes (facts 6 and 18).
func TestRehearseLossWithNone(t *testing.T) {
	t.Parallel()
	crd := crontabs(t)
	bed := start(t, crd, 9, testbed.InProcessOptions{}, testbed.ObjectOptions{New: secretObject})
	v1beta1, err := schema.New(testbed.Version(crd, "v1beta1"))
	if err != nil {
		t.Fatal(err)
	}
	const examples = " 5: default/object-000000 default/object-000002 default/object-000004"
	loss := []string{"lost spec.labels[*].weight" + examples, "lost spec.legacy" + examples, "lost spec.ports[*].hostPort" + examples}
	appeared := []string{"appeared spec.mode 9: default/object-000000 default/object-000001 default/object-000002"}

	check := func(name, request string, compare, wantLost, wantAppeared []string) {
		t.Helper()
		before := stored(t, bed)
		result := rehearse(t, bed.Config(), conversion.RehearseOptions{
			RequestVersion: request, CompareVersions: compare, Strategy: apiextensionsv1.NoneConverter, Schema: v1beta1,
		})
		if diff := gocmp.Diff(wantLost, differences(result.Lost)); diff != "" {
			t.Errorf("%s: lost (-want +got):\n%s", name, diff)
		}
		if diff := gocmp.Diff(wantAppeared, differences(result.Appeared)); diff != "" {
			t.Errorf("%s: appeared (-want +got):\n%s", name, diff)
		}
		if result.Sampled != 9 || result.Total != 9 || !result.Complete || result.RefusedCount != 0 {
			t.Errorf("%s: got %+v, want all of 9 objects, none refused", name, result)
		}
		if diff := gocmp.Diff(before, stored(t, bed)); diff != "" {
			t.Errorf("%s: the rehearsal wrote (-before +after):\n%s", name, diff)
		}
	}
	check("before, as it is to be done", "v1", []string{"v1beta1"}, loss, nil)
	// The server drops the fields when it reads, and persists at v1beta1 still:
	// neither of the two versions alone shows anything.
	check("before, compared at the new version", "v1", []string{"v1"}, nil, nil)
	check("before, written through the old version", "v1beta1", []string{"v1beta1"}, nil, nil)

	storeAtV1(t, bed)
	// A read has the defaults of the version that an object is persisted at, a
	// write those of the request: only now does mode stay.
	check("after, compared at the storage version", "v1", []string{"v1"}, nil, appeared)
	check("after, compared where the objects are persisted", "v1", []string{"v1", "v1beta1"}, loss, appeared)
	// v1beta1 does not know mode, in whatever it returns.
	check("after, written through the old version", "v1beta1", []string{"v1beta1"}, loss, nil)
}

// refuser is an admission plugin that refuses to write some objects.
type refuser struct{ refuses func(name string) bool }

func (r refuser) Handles(operation admission.Operation) bool { return operation == admission.Update }

func (r refuser) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetKind().Group == testbed.CronTabGroup && r.refuses(a.GetName()) {
		return admission.NewForbidden(a, errors.New("not on Sundays"))
	}
	return nil
}

var _ admission.ValidationInterface = refuser{}

func TestRehearseRefused(t *testing.T) {
	t.Parallel()
	crd := crontabs(t)
	// What is required at the root is not forgiven to objects that lack it (fact 12).
	testbed.Version(crd, "v1").Schema.OpenAPIV3Schema.Required = []string{"status"}
	withStatus := func(version, namespace, name string, i int) *unstructured.Unstructured {
		object := testbed.NewCronTab(version, namespace, name, i)
		if i >= 110 {
			object.Object["status"] = map[string]any{}
		}
		return object
	}
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Subresources = nil // Or status could not be created.
	}
	plugin := refuser{refuses: func(name string) bool { return name == "object-000115" }}
	bed := start(t, crd, 120, testbed.InProcessOptions{Admission: plugin}, testbed.ObjectOptions{New: withStatus})

	result := rehearse(t, bed.Config(), conversion.RehearseOptions{RequestVersion: "v1", CompareVersions: []string{"v1beta1"}})
	if result.RefusedCount != 111 || len(result.Refused) != 100 || result.Sampled != 120 || !result.Complete {
		t.Errorf("%d refused, %d of them listed, of %d; want 111, 100, 120", result.RefusedCount, len(result.Refused), result.Sampled)
	}
	for i, refused := range result.Refused {
		want := v1alpha1.ObjectFailure{Namespace: "default", Name: fmt.Sprintf("object-%06d", i), UID: refused.UID, Outcome: "refused", Reason: "Invalid", By: "schema", Message: refused.Message}
		if refused != want || refused.UID == "" || !strings.Contains(refused.Message, "status") {
			t.Errorf("got %+v, want %+v", refused, want)
		}
	}

	// Through the other version only the plugin refuses.
	result = rehearse(t, bed.Config(), conversion.RehearseOptions{RequestVersion: "v1beta1", CompareVersions: []string{"v1beta1"}})
	if result.RefusedCount != 1 || result.Refused[0].Name != "object-000115" || result.Refused[0].Reason != "AdmissionDenied" ||
		!strings.Contains(result.Refused[0].Message, "not on Sundays") {
		t.Errorf("got %+v, want object-000115, denied", result.Refused)
	}
}

func TestRehearseSample(t *testing.T) {
	t.Parallel()
	var patches atomic.Int64
	count := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, testbed.CronTabPlural) {
				patches.Add(1)
				if r.URL.Query().Get("dryRun") != metav1.DryRunAll || r.URL.Query().Get("fieldManager") != "rehearsal" {
					t.Errorf("sent %s", r.URL)
				}
			}
			next.ServeHTTP(w, r)
		})
	}
	bed := start(t, crontabs(t), 150, testbed.InProcessOptions{Middleware: count}, testbed.ObjectOptions{Namespaces: []string{"a", "b", "c"}})
	var calls, last int64
	result := rehearse(t, bed.Config(), conversion.RehearseOptions{
		RequestVersion: "v1", Sample: 40, FieldManager: "rehearsal", Progress: func(done, total int64) {
			calls++
			if done != last+1 || total != 40 {
				t.Errorf("progress %d of %d after %d", done, total, last)
			}
			last = done
		},
	})
	if result.Sampled != 40 || result.Total != 150 || result.Complete || patches.Load() != 40 || calls != 40 {
		t.Errorf("%d of %d, complete: %t, with %d patches and %d calls; want 40 of 150", result.Sampled, result.Total, result.Complete, patches.Load(), calls)
	}
}

// TestRehearseAmongWriters has an object deleted, one changed once, and one
// changed without end, each between the read and the dry run.
func TestRehearseAmongWriters(t *testing.T) {
	t.Parallel()
	var bed *testbed.InProcess
	var client dynamic.ResourceInterface
	tries := map[string]int{}
	var mutex sync.Mutex
	interfere := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("dryRun") != "" {
				name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
				mutex.Lock()
				tries[name]++
				try := tries[name]
				mutex.Unlock()
				var err error
				switch {
				case name == "object-000001":
					err = client.Delete(t.Context(), name, metav1.DeleteOptions{})
				case name == "object-000002" && try == 1, name == "object-000003":
					body := fmt.Sprintf(`{"spec":{"image":"%d"}}`, try)
					_, err = client.Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
				}
				if err != nil {
					t.Error(err)
				}
			}
			next.ServeHTTP(w, r)
		})
	}
	crd := testbed.CronTabs("v1beta1", "v1")
	bed = start(t, crd, 5, testbed.InProcessOptions{Middleware: interfere}, testbed.ObjectOptions{})
	dynamicClient, err := dynamic.NewForConfig(bed.Config())
	if err != nil {
		t.Fatal(err)
	}
	client = dynamicClient.Resource(testbed.CronTabResource("v1")).Namespace("default")

	result := rehearse(t, bed.Config(), conversion.RehearseOptions{RequestVersion: "v1", CompareVersions: []string{"v1beta1"}})
	if diff := gocmp.Diff(&v1alpha1.Rehearsal{Sampled: 3, Total: 4}, result); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := map[string]int{"object-000000": 1, "object-000001": 1, "object-000002": 2, "object-000003": 5, "object-000004": 1}; !gocmp.Equal(want, tries) {
		t.Errorf("dry runs: got %v, want %v", tries, want)
	}
}

func TestRehearseFails(t *testing.T) {
	t.Parallel()
	crd := testbed.CronTabs("v1beta1", "v1")
	testbed.Version(crd, "v1").Subresources = nil
	bed := start(t, crd, 40, testbed.InProcessOptions{}, testbed.ObjectOptions{})
	c, err := cluster.New(bed.Config(), "")
	if err != nil {
		t.Fatal(err)
	}
	options := conversion.RehearseOptions{Resource: crontabResource(), RequestVersion: "v1"}

	// The server's answer is the one for an object that is gone.
	t.Run("subresource that is not there", func(t *testing.T) {
		t.Parallel()
		options := options
		options.Subresource = "status"
		if result, err := conversion.Rehearse(t.Context(), c, options); err == nil {
			t.Errorf("got %+v, want an error", result)
		}
	})

	for name, versions := range map[string][2]string{"request": {"v2", "v1"}, "compare": {"v1", "v2"}} {
		t.Run(name+" version that is not served", func(t *testing.T) {
			t.Parallel()
			options := options
			options.RequestVersion, options.CompareVersions = versions[0], versions[1:]
			if result, err := conversion.Rehearse(t.Context(), c, options); err == nil {
				t.Errorf("got %+v, want an error", result)
			}
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		reason := errors.New("enough")
		options := options
		options.Progress = func(done, _ int64) {
			if done == 3 {
				cancel(reason)
			}
		}
		options.Concurrency = 1
		if result, err := conversion.Rehearse(ctx, c, options); !errors.Is(err, reason) && !errors.Is(err, context.Canceled) {
			t.Errorf("got %+v, %v, want the cause", result, err)
		}
	})
}

func TestRehearseWebhook(t *testing.T) {
	t.Parallel()
	// The converter renames image, loses replicas on the way to v1beta1, erases
	// labels on every way (fact 20), and fails for one object.
	hook := startWebhook(t, func(object map[string]any, to string) error {
		metadata := object["metadata"].(map[string]any)
		if metadata["name"] == "object-000003" {
			return errors.New("I do not like it")
		}
		delete(metadata, "labels")
		spec := object["spec"].(map[string]any)
		if strings.HasSuffix(to, "/v1") {
			spec["mode"] = spec["image"]
			delete(spec, "image")
		} else {
			spec["image"] = spec["mode"]
			delete(spec, "mode")
			delete(spec, "replicas")
		}
		return nil
	})
	crd := crontabs(t)
	crd.Spec.Conversion = hook
	object := func(version, namespace, name string, i int) *unstructured.Unstructured {
		object := testbed.NewCronTab(version, namespace, name, i)
		object.SetLabels(map[string]string{"a": "b"})
		return object
	}
	bed := start(t, crd, 5, testbed.InProcessOptions{}, testbed.ObjectOptions{New: object})

	before := stored(t, bed)
	result := rehearse(t, bed.Config(), conversion.RehearseOptions{
		RequestVersion: "v1", CompareVersions: []string{"v1beta1"}, Strategy: apiextensionsv1.WebhookConverter,
	})
	if result.RefusedCount != 1 || result.Refused[0].Name != "object-000003" || result.Refused[0].Reason != "ConversionFailed" {
		t.Errorf("refused: got %+v, want object-000003", result.Refused)
	}
	const examples = " 4: default/object-000000 default/object-000001 default/object-000002"
	// The rename is no loss. The labels were gone before the first read: that only
	// a round trip shows.
	if diff := gocmp.Diff([]string{"lost spec.replicas" + examples}, differences(result.Lost)); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
	if len(result.Appeared) != 0 || result.Sampled != 5 {
		t.Errorf("got %+v", result)
	}
	if diff := gocmp.Diff(before, stored(t, bed)); diff != "" {
		t.Errorf("the rehearsal wrote (-before +after):\n%s", diff)
	}
	if !slices.IsSortedFunc(result.Lost, func(a, b v1alpha1.FieldDifference) int { return cmp.Compare(a.Path, b.Path) }) {
		t.Error("the paths are in no order")
	}
}

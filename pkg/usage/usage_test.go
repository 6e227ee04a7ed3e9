package usage_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// start starts a server with CronTabs at v1beta1 and v1.
func start(t *testing.T, options testbed.InProcessOptions) *testbed.InProcess {
	t.Helper()
	bed, err := testbed.StartInProcess(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Stop)
	if _, err := testbed.CreateCRD(t.Context(), bed.Config(), testbed.CronTabs("v1beta1", "v1")); err != nil {
		t.Fatal(err)
	}
	return bed
}

// createResource creates a CRD NAME.GROUP whose objects can have any owners.
func createResource(t *testing.T, bed *testbed.InProcess, group, plural string, scope apiextensionsv1.ResourceScope) schema.GroupVersionResource {
	t.Helper()
	crd := testbed.CronTabs("v1")
	crd.Name = plural + "." + group
	crd.Spec.Group, crd.Spec.Scope = group, scope
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{
		Plural: plural, Singular: strings.TrimSuffix(plural, "s"), Kind: strings.ToUpper(plural[:1]) + plural[1:], ListKind: "List" + plural,
	}
	if _, err := testbed.CreateCRD(t.Context(), bed.Config(), crd); err != nil {
		t.Fatal(err)
	}
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
}

// createChildren creates objects that are owned by what owner says of a number.
func createChildren(t *testing.T, bed *testbed.InProcess, resource schema.GroupVersionResource, n int, options testbed.ObjectOptions, owner func(i int) (apiVersion, kind string)) {
	t.Helper()
	options.New = func(version, namespace, name string, i int) *unstructured.Unstructured {
		object := testbed.NewCronTab(version, namespace, name, i)
		object.SetAPIVersion(resource.GroupVersion().String())
		object.SetKind(strings.ToUpper(resource.Resource[:1]) + resource.Resource[1:])
		if apiVersion, kind := owner(i); apiVersion != "" {
			object.SetOwnerReferences([]metav1.OwnerReference{
				{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "1"},
				{APIVersion: apiVersion, Kind: kind, Name: "owner", UID: types.UID(fmt.Sprint(i + 2))},
			})
		}
		return object
	}
	if err := testbed.CreateObjects(t.Context(), bed.Config(), resource, n, options); err != nil {
		t.Fatal(err)
	}
}

func client(t *testing.T, config *rest.Config) cluster.Interface {
	t.Helper()
	c, err := cluster.New(config, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// discovered replaces discovery: the in-process server has no /apis. What is
// found in the resources is real. See full_test.go for all of it.
type discovered struct {
	cluster.Interface

	resources []cluster.Resource
	err       error
}

func discover(t *testing.T, config *rest.Config, resources ...schema.GroupVersionResource) discovered {
	t.Helper()
	d := discovered{Interface: client(t, config)}
	for _, resource := range resources {
		d.resources = append(d.resources, cluster.Resource{GroupVersionResource: resource})
	}
	return d
}

func (d discovered) Discovery() cluster.Discovery {
	return listable{Discovery: d.Interface.Discovery(), discovered: d}
}

type listable struct {
	cluster.Discovery

	discovered discovered
}

func (l listable) ListableResources(context.Context) ([]cluster.Resource, error) {
	return l.discovered.resources, l.discovered.err
}

func crontab(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: testbed.CronTabGroup, Version: version, Kind: testbed.CronTabKind}
}

// summary is a result as text.
func summary(result usage.OwnerReferencesResult) []string {
	var lines []string
	for _, r := range result.Resources {
		lines = append(lines, fmt.Sprintf("%s %d: %s", r.GroupResource(), r.Objects, strings.Join(r.Examples, " ")))
	}
	for _, u := range result.Unknown {
		lines = append(lines, fmt.Sprintf("unknown %s: %s", u.Name, u.Reason))
	}
	return lines
}

func TestOwnerReferences(t *testing.T) {
	t.Parallel()
	var lists, pages, whole atomic.Int64
	count := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && r.UserAgent() == "usage" {
				lists.Add(1)
				if r.URL.Query().Get("limit") != "500" {
					t.Errorf("sent %s", r.URL)
				}
				if r.URL.Query().Get("continue") != "" {
					pages.Add(1)
				}
				if !strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
					whole.Add(1)
				}
			}
			next.ServeHTTP(w, r)
		})
	}
	bed := start(t, testbed.InProcessOptions{Middleware: count})
	children := createResource(t, bed, "a.example.com", "children", apiextensionsv1.NamespaceScoped)
	globals := createResource(t, bed, "b.example.com", "globals", apiextensionsv1.ClusterScoped)
	empties := createResource(t, bed, "c.example.com", "empties", apiextensionsv1.NamespaceScoped)
	createChildren(t, bed, children, 1100, testbed.ObjectOptions{Namespaces: []string{"x", "y"}}, func(i int) (string, string) {
		switch {
		case i < 7 || i == 1099: // On the first and on the last page.
			return testbed.CronTabGroup + "/v1beta1", testbed.CronTabKind
		case i == 20: // Another version, group, kind; none.
			return testbed.CronTabGroup + "/v1", testbed.CronTabKind
		case i == 21:
			return "other.example.com/v1beta1", testbed.CronTabKind
		case i == 22:
			return testbed.CronTabGroup + "/v1beta1", "CronTabSet"
		default:
			return "", ""
		}
	})
	createChildren(t, bed, globals, 2, testbed.ObjectOptions{Namespaces: []string{""}}, func(i int) (string, string) {
		return testbed.CronTabGroup + "/v1beta1", testbed.CronTabKind
	})

	config := bed.Config()
	config.UserAgent = "usage"
	c := discover(t, config, testbed.CronTabResource("v1"), globals, empties, children)
	result, err := usage.OwnerReferences(t.Context(), c, crontab("v1beta1"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"children.a.example.com 8: x/object-000000 x/object-000002 x/object-000004 x/object-000006 y/object-000001",
		"globals.b.example.com 2: object-000000 object-000001",
	}
	if diff := cmp.Diff(want, summary(result)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if result.Objects != 10 || !result.Complete() {
		t.Errorf("%d objects, complete: %t; want 10, true", result.Objects, result.Complete())
	}
	if result.Listed != 4 || lists.Load() != 6 || pages.Load() != 2 || whole.Load() != 0 {
		t.Errorf("%d resources with %d requests, %d for further pages, %d not for metadata only; want 4, 6, 2, 0", result.Listed, lists.Load(), pages.Load(), whole.Load())
	}
	for version, want := range map[string]int64{"v1": 1, "v1alpha1": 0} {
		result, err := usage.OwnerReferences(t.Context(), c, crontab(version))
		if err != nil || result.Objects != want {
			t.Errorf("%s: %d objects, %v; want %d", version, result.Objects, err, want)
		}
	}
}

// TestOwnerReferencesUnknown is case 71: a list that fails says nothing of what
// is in it.
func TestOwnerReferencesUnknown(t *testing.T) {
	t.Parallel()
	var flaky atomic.Int64
	fail := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status := func(code int, reason metav1.StatusReason) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"because\u001b[31m"}`, reason, code)
			}
			switch {
			case r.UserAgent() != "usage":
				next.ServeHTTP(w, r)
			case strings.HasSuffix(r.URL.Path, "/forbiddens"):
				status(http.StatusForbidden, metav1.StatusReasonForbidden)
			case strings.HasSuffix(r.URL.Path, "/children") && r.URL.Query().Get("continue") != "":
				status(http.StatusInternalServerError, metav1.StatusReasonInternalError)
			case strings.HasSuffix(r.URL.Path, "/lates") && flaky.Add(1) < 3:
				status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
	bed := start(t, testbed.InProcessOptions{Middleware: fail})
	owned := func(int) (string, string) { return testbed.CronTabGroup + "/v1beta1", testbed.CronTabKind }
	resources := []schema.GroupVersionResource{testbed.CronTabResource("v1")}
	for _, plural := range []string{"forbiddens", "lates"} {
		resource := createResource(t, bed, "a.example.com", plural, apiextensionsv1.NamespaceScoped)
		createChildren(t, bed, resource, 3, testbed.ObjectOptions{}, owned)
		resources = append(resources, resource)
	}
	children := createResource(t, bed, "b.example.com", "children", apiextensionsv1.NamespaceScoped)
	createChildren(t, bed, children, 501, testbed.ObjectOptions{}, owned)

	config := bed.Config()
	config.UserAgent = "usage"
	c := discover(t, config, append(resources, children)...)
	broken := schema.GroupVersion{Group: "metrics.example.com", Version: "v1"}
	c.err = fmt.Errorf("reading: %w", &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{broken: errors.New("because")}})
	result, err := usage.OwnerReferences(t.Context(), c, crontab("v1beta1"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"lates.a.example.com 3: default/object-000000 default/object-000001 default/object-000002",
		"children.b.example.com 500: default/object-000000 default/object-000001 default/object-000002 default/object-000003 default/object-000004",
		"unknown children.b.example.com: Other",
		"unknown forbiddens.a.example.com: Forbidden",
		"unknown metrics.example.com/v1: Other",
	}
	if diff := cmp.Diff(want, summary(result)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if result.Complete() || result.Listed != 2 {
		t.Errorf("complete: %t, with %d resources listed; want false, 2", result.Complete(), result.Listed)
	}
	for _, u := range result.Unknown {
		if !strings.Contains(u.Message, "because") || strings.Contains(u.Message, "\x1b") {
			t.Errorf("message %q", u.Message)
		}
	}
}

func TestOwnerReferencesFails(t *testing.T) {
	t.Parallel()
	t.Run("no server", func(t *testing.T) {
		t.Parallel()
		config := &rest.Config{Host: "http://127.0.0.1:1", Timeout: time.Second}
		if result, err := usage.OwnerReferences(t.Context(), client(t, config), crontab("v1")); err == nil {
			t.Errorf("got %+v, want an error", result)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		bed := start(t, testbed.InProcessOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		c := interrupting{Interface: discover(t, bed.Config(), testbed.CronTabResource("v1")), cancel: cancel}
		if result, err := usage.OwnerReferences(ctx, c, crontab("v1")); !errors.Is(err, context.Canceled) {
			t.Errorf("got %+v, %v, want the cause", result, err)
		}
	})
}

// interrupting cancels when the first resource is about to be listed.
type interrupting struct {
	cluster.Interface

	cancel context.CancelFunc
}

func (i interrupting) Objects(resource schema.GroupVersionResource) cluster.Objects {
	i.cancel()
	return i.Interface.Objects(resource)
}

func TestManagedFieldsReferences(t *testing.T) {
	t.Parallel()
	bed := start(t, testbed.InProcessOptions{})
	create := func(version, manager, prefix string, n int) {
		t.Helper()
		options := testbed.ObjectOptions{FieldManager: manager, Prefix: prefix}
		if err := testbed.CreateObjects(t.Context(), bed.Config(), testbed.CronTabResource(version), n, options); err != nil {
			t.Fatal(err)
		}
	}
	create("v1beta1", "old-operator", "old-", 520)
	create("v1", "operator", "new-", 3)
	dynamicClient, err := dynamic.NewForConfig(bed.Config())
	if err != nil {
		t.Fatal(err)
	}
	objects := dynamicClient.Resource(testbed.CronTabResource("v1beta1")).Namespace("default")
	for _, name := range []string{"old-000001", "new-000001"} {
		patch := []byte(`{"status":{"replicas":1}}`)
		if _, err := objects.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubelet"}, "status"); err != nil {
			t.Fatal(err)
		}
	}

	// One object in the middle of the list was written last. The server takes no
	// new time without another change.
	last := metav1.NewTime(time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC))
	current := dynamicClient.Resource(testbed.CronTabResource("v1")).Namespace("default")
	object, err := current.Get(t.Context(), "old-000007", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	entries := object.GetManagedFields()
	entries[0].Time = &last
	object.SetManagedFields(entries)
	object.SetLabels(map[string]string{"a": "b"})
	if _, err := current.Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}

	result, err := usage.ManagedFieldsReferences(t.Context(), client(t, bed.Config()), testbed.CronTabResource("v1"), "v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Managers) != 2 || result.Managers[0].Last == nil || !result.Managers[0].Last.Equal(&last) || result.Managers[1].Last == nil {
		t.Fatalf("got %+v, want the last write of the first of two managers at %s", result.Managers, last)
	}
	for i := range result.Managers {
		result.Managers[i].Last = nil
	}
	want := usage.ManagedFieldsResult{Listed: 523, Objects: 521, Managers: []usage.ManagerReferences{
		{Manager: "old-operator", Operation: metav1.ManagedFieldsOperationUpdate, Objects: 520},
		{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status", Objects: 2},
	}}
	if diff := cmp.Diff(want, result); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := usage.ManagedFieldsReferences(t.Context(), client(t, bed.Config()), testbed.CronTabResource("v2"), "v1beta1"); err == nil {
		t.Error("no error for a resource that is not served")
	}
}

//go:build controlplane

package fulltest_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

func discoveryScenarios() []scenario {
	return []scenario{
		{name: "order", run: testOrder},
		{name: "tie", run: testTie},
		{name: "APIService that outranks", run: testOutranked},
	}
}

// brokenScenarios make a group's discovery fail.
func brokenScenarios() []scenario {
	return []scenario{{name: "APIService with a service", run: testHijacked}}
}

// referenceOrder is that of the Kubernetes documentation.
func referenceOrder() []string {
	return []string{"v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"}
}

// get reads a path of the server.
func get(t *testing.T, bed *testbed.Full, accept, path string) []byte {
	t.Helper()
	client, err := rest.UnversionedRESTClientFor(dynamic.ConfigFor(bed.Config()))
	if err != nil {
		t.Fatal(err)
	}
	body, err := client.Get().AbsPath(path).SetHeader("Accept", accept).Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// legacy returns the versions in /apis/GROUP.
func (s *subject) legacy(t *testing.T) []string {
	t.Helper()
	var group metav1.APIGroup
	if err := json.Unmarshal(get(t, s.bed, "application/json", "/apis/"+s.group), &group); err != nil {
		t.Fatal(err)
	}
	var versions []string
	for _, version := range group.Versions {
		versions = append(versions, version.Version)
	}
	return versions
}

// aggregated returns the group's versions in the aggregated document.
func (s *subject) aggregated(t *testing.T) []string {
	t.Helper()
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(get(t, s.bed, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "/apis"), &list); err != nil {
		t.Fatal(err)
	}
	var versions []string
	for _, group := range list.Items {
		if group.Name == s.group {
			for _, version := range group.Versions {
				versions = append(versions, version.Version)
			}
		}
	}
	return versions
}

// sorted returns the versions as "sort" has them.
func (s *subject) sorted(t *testing.T, args ...string) ([]string, result) {
	t.Helper()
	r := s.run(t, append([]string{"sort", "-o", "json"}, args...)...)
	var names []string
	for _, item := range decode[v1alpha1.VersionList](t, r).Items {
		names = append(names, item.Name)
	}
	return names, r
}

// testOrder compares the server's two documents with "sort" of the CRD and of
// bare names.
func testOrder(t *testing.T, bed *testbed.Full, _ *subject) {
	versions := referenceOrder()
	slices.Sort(versions) // Any order but the right one.
	s := newSubject(t, bed, "order.example.com", 0, versions...)
	want := referenceOrder()
	eventually(t, "the aggregated document has all versions", 2*time.Minute, func() bool { return len(s.aggregated(t)) == len(want) })
	if got := s.legacy(t); !slices.Equal(got, want) {
		t.Errorf("/apis/%s has %v", s.group, got)
	}
	if got := s.aggregated(t); !slices.Equal(got, want) {
		t.Errorf("the aggregated document has %v", got)
	}
	got, r := s.sorted(t, s.name)
	if !slices.Equal(got, want) {
		t.Errorf("sort has %v", got)
	}
	if r.stderr != "" {
		t.Errorf("sort says %q", r.stderr)
	}
	if got, _ := s.sorted(t, "--versions", strings.Join(versions, ",")); !slices.Equal(got, want) {
		t.Errorf("sort --versions has %v", got)
	}
	s.run(t, "status", s.name).want(t, 0, "agrees (/apis/order.example.com and the aggregated document)")
}

// testTie has two versions of the same priority.
func testTie(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "tie.example.com", 0, "v1", "v01")
	t.Logf("/apis/GROUP has %v, the aggregated document %v", s.legacy(t), s.aggregated(t))
	s.run(t, "sort", s.name).want(t, 0, "have the same priority")
	s.run(t, "status", s.name).want(t, 0, "have the same priority")
}

// apiService creates an APIService VERSION.GROUP by hand.
func (s *subject) apiService(t *testing.T, version string, priority int64, service map[string]any) {
	t.Helper()
	client, err := dynamic.NewForConfig(s.bed.Config())
	if err != nil {
		t.Fatal(err)
	}
	spec := map[string]any{"group": s.group, "version": version, "groupPriorityMinimum": int64(1000), "versionPriority": priority}
	if service != nil {
		spec["service"], spec["insecureSkipTLSVerify"] = service, true
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": version + "." + s.group},
		"spec":     spec,
	}}
	services := client.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	if _, err := services.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := services.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
}

// testOutranked has an APIService that was there before the CRD.
func testOutranked(t *testing.T, bed *testbed.Full, _ *subject) {
	(&subject{bed: bed, group: "outranked.example.com"}).apiService(t, "v1alpha1", 1000, nil)
	s := newSubject(t, bed, "outranked.example.com", 1, "v1", "v1alpha1")
	eventually(t, "/apis/GROUP has both versions", 2*time.Minute, func() bool { return len(s.legacy(t)) == 2 })
	if got := s.legacy(t); got[0] != "v1alpha1" {
		t.Fatalf("/apis/GROUP has %v: the test proves nothing", got)
	}
	t.Logf("/apis/GROUP has %v, the aggregated document %v", s.legacy(t), s.aggregated(t))
	const differs = "/apis/outranked.example.com lists v1alpha1 first, the CRD's default is v1"
	s.run(t, "sort", s.name).want(t, 0, differs)
	s.run(t, "sort").want(t, 0, differs)
	s.run(t, "status", s.name).want(t, 0, "differs: "+differs,
		"APIService v1alpha1.outranked.example.com is not managed by the server (versionPriority 1000)")
}

// testHijacked has an APIService that takes v1 away from the CRD.
func testHijacked(t *testing.T, bed *testbed.Full, _ *subject) {
	s := newSubject(t, bed, "hijacked.example.com", 0, "v1alpha1")
	(&subject{bed: bed, group: s.group}).apiService(t, "v1", 200, map[string]any{"namespace": "default", "name": "nobody"})
	s.create(t, "v1alpha1", 2)
	crd := s.crd(t)
	crd.Spec.Versions = append(crd.Spec.Versions, cronTabs(s.group, "v1").Spec.Versions[0])
	crd.Spec.Versions[1].Storage = false
	if _, err := s.crds(t).Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "/apis/GROUP has the hijacked version", 2*time.Minute, func() bool { return slices.Contains(s.legacy(t), "v1") })
	r := s.run(t, "status", s.name)
	r.want(t, 0, "APIService v1.hijacked.example.com sends v1 to service default/nobody: this CRD does not serve it")
	s.run(t, "sort", s.name).want(t, 0)
	s.run(t, "status", s.name, "--require", "v1").want(t, 3, "v1 is served by another APIService, v1.hijacked.example.com (service default/nobody)")
	s.run(t, "status", s.name, "--require", "v1alpha1").want(t, 0)
	before := s.snapshot(t)
	s.run(t, "promote", "v1", s.name, "--yes").want(t, 3, "Blocked:")
	s.unwritten(t, before)
}

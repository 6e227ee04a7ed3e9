//go:build controlplane

package usage_test

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// TestOwnerReferencesInAWholeCluster looks for children among all resources of a
// real cluster, as one who may read everything and as one who may not (cases 71
// and 83). An APIService without a backend makes the discovery of a group fail.
func TestOwnerReferencesInAWholeCluster(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	bed, err := testbed.StartFull(ctx, testbed.FullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bed.Stop)
	if _, err := testbed.CreateCRD(ctx, bed.Config(), testbed.CronTabs("v1alpha2", "v1")); err != nil {
		t.Fatal(err)
	}
	if err := testbed.CreateNamespaces(ctx, bed.Config(), "default"); err != nil {
		t.Fatal(err)
	}
	dynamicClient, err := dynamic.NewForConfig(bed.Config())
	if err != nil {
		t.Fatal(err)
	}
	create := func(resource schema.GroupVersionResource, kind, name string, fields map[string]any, namespaced bool) {
		t.Helper()
		object := &unstructured.Unstructured{Object: fields}
		object.SetAPIVersion(resource.GroupVersion().String())
		object.SetKind(kind)
		object.SetName(name)
		if kind != "APIService" {
			object.SetOwnerReferences([]metav1.OwnerReference{
				{APIVersion: testbed.CronTabGroup + "/v1alpha2", Kind: testbed.CronTabKind, Name: "owner", UID: "1"},
			})
		}
		namespace := ""
		if namespaced {
			namespace = "default"
		}
		if _, err := dynamicClient.Resource(resource).Namespace(namespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	core := schema.GroupVersion{Version: "v1"}
	for i := range 3 {
		create(core.WithResource("configmaps"), "ConfigMap", fmt.Sprintf("child-%d", i), map[string]any{}, true)
	}
	create(core.WithResource("secrets"), "Secret", "child", map[string]any{}, true)
	create(core.WithResource("events"), "Event", "child", map[string]any{
		"involvedObject": map[string]any{"kind": "Pod", "namespace": "default", "name": "a"},
	}, true)
	create(testbed.CronTabResource("v1"), testbed.CronTabKind, "child", map[string]any{}, true)
	create(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, "ClusterRole", "child", map[string]any{}, false)

	result, err := usage.OwnerReferences(ctx, client(t, bed.Config()), crontab("v1alpha2"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"configmaps 3: default/child-0 default/child-1 default/child-2",
		"secrets 1: default/child",
		"events.events.k8s.io 1: default/child", // And not once more as events.
		"clusterroles.rbac.authorization.k8s.io 1: child",
		"crontabs.stable.example.com 1: default/child",
	}
	if got := summary(result); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if result.Objects != 7 || !result.Complete() || result.Listed < 40 {
		t.Errorf("%d objects in %d resources, complete: %t", result.Objects, result.Listed, result.Complete())
	}

	// One who may read config maps only.
	config, err := bed.User(ctx, "reader", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}})
	if err != nil {
		t.Fatal(err)
	}
	create(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}, "APIService", "v1.metrics.example.com", map[string]any{
		"spec": map[string]any{
			"group": "metrics.example.com", "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": "default", "name": "nobody"},
		},
	}, false)
	reader := client(t, config)
	// The aggregator takes a moment to see the APIService.
	var lines string
	for range 100 {
		if result, err = usage.OwnerReferences(ctx, reader, crontab("v1alpha2")); err != nil {
			t.Fatal(err)
		}
		if lines = strings.Join(summary(result), "\n"); strings.Contains(lines, "metrics.example.com") {
			break
		}
	}
	if result.Complete() || result.Objects != 3 || result.Listed != 1 {
		t.Errorf("%d objects in %d resources, complete: %t; want 3, 1, false", result.Objects, result.Listed, result.Complete())
	}
	for _, want := range []string{
		"configmaps 3: ", "unknown secrets: Forbidden", "unknown crontabs.stable.example.com: Forbidden", "unknown metrics.example.com/v1: ",
	} {
		if !strings.Contains(lines, want) {
			t.Errorf("got\n%s\nwithout %q", lines, want)
		}
	}
}

package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// crontabs returns a CRD like testbed.CronTabs in a group of its own. The first
// version is the storage version.
func crontabs(group string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	c := testbed.CronTabs(versions...)
	c.Spec.Group = group
	c.Name = c.Spec.Names.Plural + "." + group
	return c
}

func (b *bed) createCRD(t *testing.T, c *apiextensionsv1.CustomResourceDefinition) string {
	t.Helper()
	if _, err := testbed.CreateCRD(t.Context(), b.Config(), c); err != nil {
		t.Fatal(err)
	}
	return c.Name
}

func resource(group, version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: testbed.CronTabPlural}
}

// newCronTab builds a CronTab of a group.
func newCronTab(group, version, namespace, name string, i int) *unstructured.Unstructured {
	object := testbed.NewCronTab(version, namespace, name, i)
	object.SetAPIVersion(group + "/" + version)
	return object
}

// createObjects creates n CronTabs through a version, in the namespaces in turn.
func (b *bed) createObjects(t *testing.T, group, version string, n int, namespaces ...string) {
	t.Helper()
	err := testbed.CreateObjects(t.Context(), b.Config(), resource(group, version), n, testbed.ObjectOptions{
		Namespaces: namespaces,
		New: func(version, namespace, name string, i int) *unstructured.Unstructured {
			return newCronTab(group, version, namespace, name, i)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// scene creates a CRD, v1beta1 stored and v1 served, with n objects.
func (b *bed) scene(t *testing.T, group string, n int) string {
	t.Helper()
	name := b.createCRD(t, crontabs(group, "v1beta1", "v1"))
	b.createObjects(t, group, "v1beta1", n, "a", "b")
	return name
}

func (b *bed) crds(t *testing.T) clientset.Interface {
	t.Helper()
	client, err := clientset.NewForConfig(b.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (b *bed) objects(t *testing.T) dynamic.Interface {
	t.Helper()
	return dynamicFor(t, b.Config())
}

func (b *bed) crd(t *testing.T, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	c, err := b.crds(t).ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// updateCRD changes a CRD as somebody else would.
func (b *bed) updateCRD(t *testing.T, name string, change func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	if _, err := testbed.UpdateCRD(t.Context(), b.Config(), name, change); err != nil {
		t.Error(err)
	}
}

// writeCRD changes a CRD and does not wait until its objects can be read again:
// perhaps they never can.
func (b *bed) writeCRD(t *testing.T, name string, change func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		c := b.crd(t, name)
		change(c)
		_, err := b.crds(t).ApiextensionsV1().CustomResourceDefinitions().Update(t.Context(), c, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// patchStored sets status.storedVersions, as people do by hand.
func (b *bed) patchStored(t *testing.T, name string, stored ...string) {
	t.Helper()
	body := fmt.Sprintf(`{"status":{"storedVersions":["%s"]}}`, strings.Join(stored, `","`))
	_, err := b.crds(t).ApiextensionsV1().CustomResourceDefinitions().
		Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "by-hand"}, "status")
	if err != nil {
		t.Fatal(err)
	}
}

// wantStored makes sure, from etcd, at which versions the objects are persisted.
func (b *bed) wantStored(t *testing.T, group string, want map[string]int) {
	t.Helper()
	got, err := testbed.CountByVersion(t.Context(), b.Etcd(), group, testbed.CronTabPlural)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: stored at %v, want %v", group, got, want)
	}
}

// wantVersions makes sure of the versions of the CRD and of its storedVersions.
func (b *bed) wantVersions(t *testing.T, name string, versions, stored []string) {
	t.Helper()
	c := b.crd(t, name)
	var got []string
	for _, v := range c.Spec.Versions {
		text := v.Name
		if !v.Served {
			text += " unserved"
		}
		if v.Storage {
			text += " storage"
		}
		got = append(got, text)
	}
	if !slices.Equal(got, versions) || !slices.Equal(c.Status.StoredVersions, stored) {
		t.Errorf("%s: versions %q, storedVersions %q; want %q, %q", name, got, c.Status.StoredVersions, versions, stored)
	}
}

// revisions returns when each key of the server in etcd was last written.
func (b *bed) revisions(t *testing.T) map[string]int64 {
	t.Helper()
	response, err := b.Etcd().Get(t.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int64{}
	for _, kv := range response.Kvs {
		all[string(kv.Key)] = kv.ModRevision
	}
	return all
}

// wantUnwritten makes sure that no key in etcd was written since before.
func (b *bed) wantUnwritten(t *testing.T, before map[string]int64) {
	t.Helper()
	after := b.revisions(t)
	if maps.Equal(before, after) {
		return
	}
	for key := range before {
		if after[key] != before[key] {
			t.Errorf("%s was written or deleted", key)
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok {
			t.Errorf("%s was created", key)
		}
	}
}

func dynamicFor(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

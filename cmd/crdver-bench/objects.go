package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/crdver/kubectl-crdver/pkg/bench"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// The versions between which the objects are rewritten, to and fro.
const oldVersion, newVersion = "v1beta1", "v1"

// A share is a namespace, for the contestants that would take too long for all
// objects.
type share struct {
	namespace string
	objects   int
}

// everything is all namespaces.
const everything = ""

// objects are the CronTabs that all contestants rewrite, one after the other.
type objects struct {
	bed *bed
	// bytes is the size of an object in JSON, about.
	bytes int
	// count is the number of objects in each namespace.
	count map[string]int
	// storage is the version that they are persisted at.
	storage string
}

// createObjects makes the CRD and the objects of the shares.
func createObjects(ctx context.Context, b *bed, bytes int, shares []share) (*objects, error) {
	crd := testbed.CronTabs(oldVersion, newVersion)
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["spec"].Properties["script"] = apiextensionsv1.JSONSchemaProps{
			Type:  "array",
			Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}},
		}
	}
	if _, err := testbed.CreateCRD(ctx, b.Config(), crd); err != nil {
		return nil, err
	}
	o := &objects{bed: b, bytes: bytes, count: map[string]int{}, storage: oldVersion}
	return o, o.add(ctx, shares)
}

// add creates more objects.
func (o *objects) add(ctx context.Context, shares []share) error {
	for _, s := range shares {
		if o.bed.full != nil {
			if err := testbed.CreateNamespaces(ctx, o.bed.Config(), s.namespace); err != nil {
				return err
			}
		}
		options := testbed.ObjectOptions{Namespaces: []string{s.namespace}, New: o.make}
		if err := testbed.CreateObjects(ctx, o.bed.Config(), testbed.CronTabResource(o.storage), s.objects, options); err != nil {
			return err
		}
		o.count[s.namespace] += s.objects
	}
	return nil
}

// make builds an object of the size that was asked for, in lines of 40 bytes, as
// scripts and lists of arguments are.
func (o *objects) make(version, namespace, name string, i int) *unstructured.Unstructured {
	object := testbed.NewCronTab(version, namespace, name, i)
	script := make([]any, o.bytes/41)
	for line := range script {
		script[line] = fmt.Sprintf("step %06d/%04d: echo something and go", i, line)
	}
	spec, _ := object.Object["spec"].(map[string]any) // NewCronTab makes one.
	spec["script"] = script
	return object
}

// total returns the number of objects of a namespace, or of all.
func (o *objects) total(namespace string) int {
	if namespace != everything {
		return o.count[namespace]
	}
	total := 0
	for _, count := range o.count {
		total += count
	}
	return total
}

// other returns the version that the objects are not persisted at.
func (o *objects) other() string {
	if o.storage == oldVersion {
		return newVersion
	}
	return oldVersion
}

// flip makes the other version the storage version, and returns when the server
// persists at it and has come to rest.
func (o *objects) flip(ctx context.Context) error {
	next := o.other()
	_, err := testbed.UpdateCRD(ctx, o.bed.Config(), testbed.CronTabCRD, func(crd *apiextensionsv1.CustomResourceDefinition) {
		testbed.SetStorageVersion(crd, next)
	})
	if err != nil {
		return err
	}
	probe := testbed.NewCronTab(next, metav1.NamespaceDefault, "probe", 0)
	if err := testbed.WaitForStorageVersion(ctx, o.bed, testbed.CronTabResource(next), probe, next); err != nil {
		return err
	}
	o.storage = next
	// The server has thrown its caches of the resource away. It fills them when
	// it is first asked again, which is not what is measured.
	return waitIdle(ctx, o.bed.ids, 20*time.Second)
}

// verify reads from etcd that all objects of a namespace, or all there are, are
// persisted at the storage version. Of a run that stops early, want says how many.
func (o *objects) verify(ctx context.Context, namespace string, want int) error {
	plural := testbed.CronTabPlural
	if namespace != everything {
		plural += "/" + namespace // The namespace comes next in the key.
	}
	got, err := testbed.CountByVersion(ctx, o.bed.Etcd(), testbed.CronTabGroup, plural)
	if err != nil {
		return err
	}
	expected := map[string]int{o.storage: want}
	if left := o.total(namespace) - want; left > 0 {
		expected[o.other()] = left
	}
	if !maps.Equal(got, expected) {
		return fmt.Errorf("etcd holds %v after the run, want %v", got, expected)
	}
	return nil
}

// finish brings all objects to one version again: it rewrites what a run has left
// of its share or, of a run that stopped early, takes back what it did, which is
// less work. Then it makes room in etcd, which keeps all that was ever written.
func (o *objects) finish(ctx context.Context, kubeconfig string, limit int) error {
	request := bench.Request{Way: bench.WayEngine, Kubeconfig: kubeconfig}
	if limit > 0 {
		if err := o.flip(ctx); err != nil {
			return fmt.Errorf("taking back what was rewritten: %w", err)
		}
		// It lists in the same order, that of the keys, and finds the same objects.
		request.Way, request.Limit = bench.WayVersionPatch, limit
	}
	request.Resource = testbed.CronTabResource(o.storage)
	if _, err := bench.Run(ctx, request); err != nil {
		return fmt.Errorf("rewriting what is left: %w", err)
	}
	if err := o.verify(ctx, everything, o.total(everything)); err != nil {
		return err
	}
	status, err := o.bed.Etcd().Get(ctx, "/", clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("reading the revision of etcd: %w", err)
	}
	if _, err := o.bed.Etcd().Compact(ctx, status.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		return fmt.Errorf("compacting etcd: %w", err)
	}
	return nil
}

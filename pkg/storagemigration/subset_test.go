package storagemigration_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// A sample and the named objects are less than all, and no more than what they
// say they are.
func TestSubsets(t *testing.T) {
	t.Parallel()
	const n = 1200
	bed := startWithCronTabs(t, n, testbed.InProcessOptions{})
	flipAndWait(t, bed)
	objects := cronTabs(t, bed.Config(), "v1")

	// Every third of them, from pages that are no multiple of three.
	pass, err := storagemigration.Pass(t.Context(), storagemigration.Sample(objects), storagemigration.PassOptions{PageSize: 100})
	if err != nil || pass.Counts.Listed != n/3 || pass.Counts.Refused+pass.Counts.Failed != 0 {
		t.Errorf("a sample of %d: %+v, %v", n, pass.Counts, err)
	}

	// More of them than a page has, one that is gone, and one that is another by now.
	var ids []cluster.ObjectID
	page, err := objects.ListMetadata(t.Context(), cluster.PageOptions{Limit: 150})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range page.Items {
		ids = append(ids, cluster.ObjectID{NamespacedName: types.NamespacedName{Namespace: object.Namespace, Name: object.Name}, UID: object.UID})
	}
	ids[3].UID = "another"
	ids[120].Name = "gone"
	pass, err = storagemigration.Pass(t.Context(), storagemigration.Named(objects, ids), storagemigration.PassOptions{})
	if c := pass.Counts; err != nil || c.Listed != 150 || c.Deleted != 2 || c.Refused+c.Failed != 0 {
		t.Errorf("150 named objects: %+v, %v", c, err)
	}
}

// An object that cannot be read keeps none of the other named ones from being sent.
func TestNamedAmongUnreadable(t *testing.T) {
	t.Parallel()
	const n = 12
	bed, objects := startWithHuge(t, n)
	page, err := cronTabs(t, bed.Config(), "v1beta1").ListMetadata(t.Context(), cluster.PageOptions{Limit: n})
	if err != nil {
		t.Fatal(err)
	}
	var ids []cluster.ObjectID
	for _, object := range page.Items {
		ids = append(ids, cluster.ObjectID{NamespacedName: types.NamespacedName{Namespace: object.Namespace, Name: object.Name}, UID: object.UID})
	}
	result, err := storagemigration.Pass(t.Context(), storagemigration.Named(objects, ids), storagemigration.PassOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantSum(t, result)
	if c := result.Counts; c.Listed != n || c.Refused != 1 || c.Rewritten+c.Current != n-1 || len(result.Failures) != 1 ||
		result.Failures[0].Name != "object-07" || result.Failures[0].UID != string(ids[7].UID) || result.Failures[0].Reason != "ConversionFailed" {
		t.Errorf("%+v", result)
	}
	wantStored(t, bed, map[string]int{"v1": n - 1, "v1beta1": 1})
}

// The connections of a pass are its own, and counted, whatever is around the objects,
// in whatever order.
func TestBandwidthOfWrappedObjects(t *testing.T) {
	t.Parallel()
	const n = 20
	bed := startWithCronTabs(t, n, testbed.InProcessOptions{})
	flipAndWait(t, bed)
	objects := cronTabs(t, bed.Config(), "v1")
	page, err := objects.ListMetadata(t.Context(), cluster.PageOptions{Limit: n})
	if err != nil {
		t.Fatal(err)
	}
	var ids []cluster.ObjectID
	for _, object := range page.Items {
		ids = append(ids, cluster.ObjectID{NamespacedName: types.NamespacedName{Namespace: object.Namespace, Name: object.Name}, UID: object.UID})
	}
	guard := func(context.Context, types.NamespacedName) error { return nil }
	for name, wrapped := range map[string]cluster.Objects{
		"guarded":        storagemigration.Guarded(objects, guard),
		"sample":         storagemigration.Sample(storagemigration.Guarded(objects, guard)),
		"named":          storagemigration.Named(storagemigration.Guarded(objects, guard), ids),
		"guarded sample": storagemigration.Guarded(storagemigration.Sample(objects), guard),
		"guarded names":  storagemigration.Guarded(storagemigration.Named(objects, ids), guard),
	} {
		result, err := storagemigration.Pass(t.Context(), wrapped, storagemigration.PassOptions{MaxBandwidth: 10 << 20})
		if c := result.Counts; err != nil || c.Listed != n || c.Rewritten+c.Current != n {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	wantStored(t, bed, map[string]int{"v1": n})
}

// A version that has no status subresource answers 404 for that of each object, in the
// words for an object that is gone. So does a server that takes it for one.
func TestPassIsNotFooledByAMissingSubresource(t *testing.T) {
	t.Parallel()
	const n = 20
	bed := startWithCronTabs(t, n, testbed.InProcessOptions{})
	updateCRD(t, bed, func(crd *apiextensionsv1.CustomResourceDefinition) { testbed.Version(crd, "v1").Subresources = nil })
	flipAndWait(t, bed)
	objects := cronTabs(t, bed.Config(), "v1")
	waitUntil(t, func() bool {
		_, err := objects.PatchMetadata(t.Context(), types.NamespacedName{Namespace: "a", Name: name(0)}, cluster.PatchRequest{
			Type: types.MergePatchType, Body: []byte(`{}`), Subresource: "status",
		})
		return apierrors.IsNotFound(err) && cluster.AboutObject(err, testbed.CronTabPlural, name(0))
	})
	client := dynamicClient(t, bed.Config(), "v1")
	options := storagemigration.PassOptions{
		Subresource: "status",
		Patch: func(object *metav1.PartialObjectMetadata) ([]byte, bool, error) {
			var err error
			switch object.Name { // After they were listed, one goes away, and one is another by now.
			case name(3), name(4):
				err = client.Namespace(object.Namespace).Delete(t.Context(), object.Name, metav1.DeleteOptions{})
			}
			if err == nil && object.Name == name(4) {
				again := testbed.NewCronTab("v1", object.Namespace, object.Name, 4)
				_, err = client.Namespace(object.Namespace).Create(t.Context(), again, metav1.CreateOptions{})
			}
			if err != nil {
				return nil, false, fmt.Errorf("meanwhile: %w", err)
			}
			return storagemigration.NoOpPatch(object)
		},
	}
	result, err := storagemigration.Pass(t.Context(), objects, options)
	if err != nil {
		t.Fatal(err)
	}
	wantSum(t, result)
	if c := result.Counts; c.Deleted != 2 || c.Failed != n-2 || result.Clean() {
		t.Errorf("%+v", c)
	}
	if len(result.Groups) != 1 || !strings.Contains(result.Groups[0].Message, "404 for the subresource status, and the object is there") {
		t.Errorf("%+v", result.Groups)
	}
}

package storagemigration_test

import (
	"testing"

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
	named := storagemigration.NewNamed(objects, ids)
	pass, err = storagemigration.Pass(t.Context(), named, storagemigration.PassOptions{})
	if err != nil || pass.Counts.Listed != 148 || named.Gone() != 2 {
		t.Errorf("150 named objects: %+v, %d gone, %v", pass.Counts, named.Gone(), err)
	}
}

package usage_test

import (
	"context"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/testbed"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// changing is a server whose discovery changes from one answer to the next.
type changing struct {
	cluster.Interface

	answers *[][]schema.GroupVersionResource
}

func (c changing) Discovery() cluster.Discovery {
	return changingDiscovery{Discovery: c.Interface.Discovery(), answers: c.answers}
}

type changingDiscovery struct {
	cluster.Discovery

	answers *[][]schema.GroupVersionResource
}

func (d changingDiscovery) ListableResources(context.Context) ([]cluster.Resource, error) {
	var resources []cluster.Resource
	for _, resource := range (*d.answers)[0] {
		resources = append(resources, cluster.Resource{GroupVersionResource: resource})
	}
	*d.answers = (*d.answers)[1:]
	return resources, nil
}

// TestOwnerReferencesOfWhatGoes is about resources that discovery names and that
// are not there a moment later: a version that is unserved, a CRD that is deleted.
func TestOwnerReferencesOfWhatGoes(t *testing.T) {
	t.Parallel()
	bed := start(t, testbed.InProcessOptions{})
	served := createResource(t, bed, "children.example.com", "children", apiextensionsv1.NamespaceScoped)
	createChildren(t, bed, served, 3, testbed.ObjectOptions{}, func(int) (string, string) { return testbed.CronTabGroup + "/v1beta1", "Owner" })
	owner := schema.GroupVersionKind{Group: testbed.CronTabGroup, Version: "v1beta1", Kind: "Owner"}
	unserved := served.GroupResource().WithVersion("v0")
	deleted := schema.GroupVersionResource{Group: "gone.example.com", Version: "v1", Resource: "things"}
	for name, test := range map[string]struct {
		answers [][]schema.GroupVersionResource
		objects int64
		unknown int
	}{
		"a version":             {answers: [][]schema.GroupVersionResource{{unserved}, {served, deleted}}, objects: 3},
		"a CRD":                 {answers: [][]schema.GroupVersionResource{{served, deleted}, {served}}, objects: 3},
		"named but never there": {answers: [][]schema.GroupVersionResource{{deleted}, {deleted}}, unknown: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := test.answers
			result, err := usage.OwnerReferences(t.Context(), changing{Interface: client(t, bed.Config()), answers: &answers}, owner)
			if err != nil {
				t.Fatal(err)
			}
			if result.Objects != test.objects || len(result.Unknown) != test.unknown {
				t.Errorf("%d objects, unknown %v; want %d and %d", result.Objects, result.Unknown, test.objects, test.unknown)
			}
		})
	}
}

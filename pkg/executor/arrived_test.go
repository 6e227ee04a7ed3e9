package executor

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// TestArrived is about what counts as one's own patch whose answer was lost.
func TestArrived(t *testing.T) {
	t.Parallel()
	const manager = "kubectl-crdver"
	read := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "a.example.com", UID: "1", ResourceVersion: "7", Generation: 3, Annotations: map[string]string{"team": "a"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
			{Name: "v1beta1", Served: true, Storage: true}, {Name: "v1", Served: true},
		}},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: []string{"v1beta1", "v1"}},
	}
	const (
		flip = `[{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true}]`
		trim = `[{"op":"replace","path":"/status/storedVersions","value":["v1"]}]`
	)
	cut := &url.Error{Op: "Patch", URL: "https://server", Err: errors.New("EOF")}
	for name, test := range map[string]struct {
		body, subresource string
		change            func(now *apiextensionsv1.CustomResourceDefinition)
		want              bool
	}{
		"it did":                                 {body: flip, want: true},
		"the trim did":                           {body: trim, subresource: "status", want: true},
		"nothing was written":                    {body: flip, change: func(now *apiextensionsv1.CustomResourceDefinition) { now.ResourceVersion = "7" }},
		"another CRD":                            {body: flip, change: func(now *apiextensionsv1.CustomResourceDefinition) { now.UID = "2" }},
		"by somebody else":                       {body: flip, change: func(now *apiextensionsv1.CustomResourceDefinition) { now.ManagedFields[0].Manager = "kubectl" }},
		"of another subresource":                 {body: trim, subresource: "status", change: func(now *apiextensionsv1.CustomResourceDefinition) { now.ManagedFields[0].Subresource = "" }},
		"and somebody else wrote":                {body: flip, change: func(now *apiextensionsv1.CustomResourceDefinition) { now.Spec.Versions[0].Served = false }},
		"and somebody else wrote, and that back": {body: flip, change: func(now *apiextensionsv1.CustomResourceDefinition) { now.Generation += 2 }},
		"or somebody flipped, flipped back and trimmed": {body: trim, subresource: "status", change: func(now *apiextensionsv1.CustomResourceDefinition) { now.Generation += 2 }},
		"and it was annotated":                          {body: flip, change: func(now *apiextensionsv1.CustomResourceDefinition) { now.Annotations["team"] = "b" }},
		"and it is deleted": {body: flip, change: func(now *apiextensionsv1.CustomResourceDefinition) {
			now.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}},
		"only another trim":    {body: trim, subresource: "status", change: func(now *apiextensionsv1.CustomResourceDefinition) { now.Status.StoredVersions = []string{"v1beta1"} }},
		"the hold was renewed": {body: flip, want: true, change: func(now *apiextensionsv1.CustomResourceDefinition) { now.Annotations[lifecycle.HoldAnnotation] = "{}" }},
		"a condition changed": {body: flip, want: true, change: func(now *apiextensionsv1.CustomResourceDefinition) {
			now.Status.Conditions = append(now.Status.Conditions, apiextensionsv1.CustomResourceDefinitionCondition{Type: "Established"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, err := patched(read, []byte(test.body))
			if err != nil {
				t.Fatal(err)
			}
			now.ResourceVersion = "8"
			now.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, Subresource: test.subresource}}
			if test.change != nil {
				test.change(now)
			}
			sent := lost(t.Context(), cut, read, []byte(test.body), manager, test.subresource)
			if got := sent.arrived(now); got != test.want {
				t.Errorf("arrived: %t, want %t", got, test.want)
			}
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	crds := schema.GroupResource{Resource: "customresourcedefinitions"}
	for _, answered := range []error{apierrors.NewConflict(crds, "a", errors.New("x")), apierrors.NewForbidden(crds, "a", errors.New("x")), errors.New("x")} {
		if lost(t.Context(), answered, read, []byte(flip), manager, "") != nil {
			t.Errorf("%v is an answer", answered)
		}
	}
	if lost(ended, cut, read, []byte(flip), manager, "") != nil {
		t.Error("a run that is over looks for nothing")
	}
}

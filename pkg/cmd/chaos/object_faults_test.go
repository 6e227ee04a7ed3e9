package chaos_test

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// objectFaults are objects that are not as most are.
func objectFaults() []fault {
	return []fault{
		{
			name: "objects wait for their finalizers", onlyLong: true, codes: []int{0},
			prepare: func(s *scene) {
				for i := range 10 {
					object := newObject(group, "v1beta1", "a", fmt.Sprintf("kept-%d", i), i)
					object.SetFinalizers([]string{"example.com/keep"})
					objects := s.client().Resource(s.at("v1beta1")).Namespace("a")
					_, err := objects.Create(s.Context(), object, metav1.CreateOptions{})
					s.must(err)
					s.must(objects.Delete(s.Context(), object.GetName(), metav1.DeleteOptions{}))
				}
			},
		},
		{
			name: "object of 1.4 MB", codes: []int{0},
			prepare: func(s *scene) {
				object := newObject(group, "v1beta1", "b", "large", 1)
				object.Object["spec"].(map[string]any)["image"] = strings.Repeat("x", 1_400_000)
				_, err := s.client().Resource(s.at("v1beta1")).Namespace("b").Create(s.Context(), object, metav1.CreateOptions{})
				s.must(err)
			},
		},
		{
			// Fact 12 and case 67: ratcheting does not spare what is required at the
			// root. The plan says so before anything is written.
			name: "object is no longer valid", codes: []int{3}, says: []string{"b/empty", "spec: Required value", "to resolve: "},
			after: func(s *scene) {
				key := "/registry/" + group + "/" + testbed.CronTabPlural + "/b/empty"
				s.witness.expect(func() { delete(s.witness.still, key) })
				s.must(patchMerge(s.Context(), s.client().Resource(s.at("v1beta1")).Namespace("b"), "empty", `{"spec":{"replicas":1}}`))
			},
			again: []again{{}},
			crd: func(crd *apiextensionsv1.CustomResourceDefinition) {
				testbed.Version(crd, "v1").Schema.OpenAPIV3Schema.Required = []string{"spec"}
			},
			prepare: func(s *scene) {
				object := newObject(group, "v1beta1", "b", "empty", 1)
				delete(object.Object, "spec")
				objects := s.client().Resource(s.at("v1beta1")).Namespace("b")
				_, err := objects.Create(s.Context(), object, metav1.CreateOptions{})
				s.must(err)
			},
		},
	}
}

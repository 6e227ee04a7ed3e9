package chaos_test

import (
	"errors"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// peopleFaults are what others do to the CRD and to the rights meanwhile.
func peopleFaults() []fault {
	return []fault{
		{
			// Case 23.
			name: "storage is flipped back", codes: []int{3}, again: []again{{}},
			inject: func(s *scene) error {
				_, err := testbed.UpdateCRD(s.Context(), s.admin, s.name, func(crd *apiextensionsv1.CustomResourceDefinition) {
					testbed.SetStorageVersion(crd, "v1beta1")
				})
				return err
			},
			after: func(s *scene) { s.must(s.notTrimmed()) },
		},
		{
			name: "storedVersions is trimmed", codes: []int{3}, again: []again{{}},
			inject: func(s *scene) error {
				s.witness.expect(func() { s.witness.trimmed = true })
				return s.patchCRD(`{"status":{"storedVersions":["v1"]}}`, "status")
			},
		},
		{
			name: "CRD is deleted", codes: []int{1, 3}, gone: true, again: []again{{code: 1, says: []string{"no CustomResourceDefinition is named"}}},
			inject: func(s *scene) error {
				s.forget("")
				err := s.crew.end()
				return errors.Join(err, s.crds().ApiextensionsV1().CustomResourceDefinitions().Delete(s.Context(), s.name, metav1.DeleteOptions{}))
			},
			after: func(s *scene) {
				s.must(eventually("the CRD is gone", func() bool {
					response, err := s.etcd.Get(s.Context(), s.witness.crdKey)
					return err == nil && len(response.Kvs) == 0
				}))
			},
		},
		{
			name: "objects of a namespace are deleted", onlyLong: true, codes: []int{0},
			inject: func(s *scene) error {
				s.forget("c")
				return s.client().Resource(s.at("v1")).Namespace("c").DeleteCollection(s.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
			},
		},
		{
			name: "rights are taken away", onlyLong: true, start: startOne, codes: []int{4, 3}, says: []string{"cannot patch resource"},
			inject: func(s *scene) error {
				s.guard.rights(func(a authorizer.Attributes) bool {
					return a.GetVerb() == "patch" && a.GetResource() == testbed.CronTabPlural
				})
				return nil
			},
			after: func(s *scene) { s.must(s.notTrimmed()) },
			again: []again{
				{code: 3, says: []string{"cannot patch resource"}},
				{before: func(s *scene) { s.guard.rights(nil) }},
			},
		},
		{
			// Case 69.
			name: "policy refuses one in a hundred", codes: []int{4}, says: []string{refusal},
			inject: func(s *scene) error { return s.policies.refuseOneIn(100) },
			after:  func(s *scene) { s.must(s.notTrimmed()) },
			again: []again{
				{code: 3, says: []string{refusal}},
				{before: func(s *scene) { s.must(s.policies.lift()) }},
			},
		},
	}
}

package validate

import (
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func removedCRDAPI() Rule {
	return Rule{
		ID:       "removed-crd-api",
		Severity: v1alpha1.SeverityError,
		Summary:  "the manifest uses apiextensions.k8s.io/v1beta1, which is not served since Kubernetes 1.22",
		Why: "No supported API server takes the manifest. The other findings are those of the CRD as upstream's conversion to v1 gives it: " +
			"v1 asks for a schema of every version, and prunes unless told otherwise.",
		Fix: "Write the manifest for apiextensions.k8s.io/v1: move validation, subresources and additionalPrinterColumns into each version.",
		Check: func(s *Subject) []Problem {
			if s.Live() || s.CRD.Origin.APIVersion != apiextensionsv1beta1.SchemeGroupVersion.String() {
				return nil
			}
			return []Problem{{
				Path:    "apiVersion",
				Message: "apiVersion apiextensions.k8s.io/v1beta1 is not served since Kubernetes 1.22",
			}}
		},
	}
}

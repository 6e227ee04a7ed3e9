package validate

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func apiApproval() Rule {
	return Rule{
		ID:       "api-approval",
		Severity: v1alpha1.SeverityError,
		Summary:  "the group is one of the Kubernetes community, and the API is not marked as approved",
		Why: "Groups that end in k8s.io or kubernetes.io belong to the Kubernetes community. The API server asks for the annotation " +
			"api-approved.kubernetes.io there: the URL of the approval, or a reason that starts with \"unapproved\".",
		Fix: "Use a group of your own domain. For an API of the community, set the annotation api-approved.kubernetes.io to the URL of its approval.",
		Claims: func(r Refusal) bool {
			return strings.HasPrefix(r.Path, "metadata.annotations") && strings.Contains(r.Path, apiextensionsv1.KubeAPIApprovedAnnotation)
		},
		Check: checkAPIApproval,
	}
}

func checkAPIApproval(s *Subject) []Problem {
	if !s.Live() {
		return nil
	}
	condition, path := s.condition(apiextensionsv1.KubernetesAPIApprovalPolicyConformant)
	if condition == nil || condition.Status != apiextensionsv1.ConditionFalse {
		return nil
	}
	severity := v1alpha1.SeverityWarning
	if condition.Reason == "UnapprovedAnnotation" {
		// Somebody said so on purpose, and the server takes it.
		severity = v1alpha1.SeverityInfo
	}
	return []Problem{{
		Severity: severity,
		Path:     path,
		Message:  "the API is not approved for the group " + s.CRD.Spec.Group + ": " + condition.Message,
	}}
}

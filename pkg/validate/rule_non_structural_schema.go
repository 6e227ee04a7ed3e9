package validate

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func nonStructuralSchema() Rule {
	return Rule{
		ID:       "non-structural-schema",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "a schema is not structural",
		Why: "Such schemas are left from apiextensions.k8s.io/v1beta1. Without structural schemas there is no pruning, no defaulting, no webhook conversion " +
			"and no server-side apply by field, and a manifest for v1 that still has them is refused.",
		Fix:      "Write the schemas so that every field has a type, outside of allOf, anyOf, oneOf and not. The condition's message names the fields.",
		LiveOnly: true,
		Check: func(s *Subject) []Problem {
			condition, path := s.condition(apiextensionsv1.NonStructuralSchema)
			if condition == nil || condition.Status != apiextensionsv1.ConditionTrue {
				return nil
			}
			return []Problem{{Path: path, Message: "a schema is not structural: " + condition.Message}}
		},
	}
}

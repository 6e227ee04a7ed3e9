package validate

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func namesNotAccepted() Rule {
	return Rule{
		ID:       "names-not-accepted",
		Severity: v1alpha1.SeverityError,
		Summary:  "another CRD of the group already has one of the names",
		Why: "Plural, singular, short names, kind and list kind are unique within a group. A new CRD is not served at all until the conflict is gone; " +
			"one that was established before goes on with the names that it had, and ignores the new ones.",
		Fix:      "Change the name that the condition's message gives, or remove the other CRD if it is a leftover and has no objects.",
		LiveOnly: true,
		Check: func(s *Subject) []Problem {
			condition, path := s.condition(apiextensionsv1.NamesAccepted)
			if condition == nil || condition.Status != apiextensionsv1.ConditionFalse {
				return nil
			}
			problem := Problem{Path: path, Message: "the names are not accepted (" + condition.Reason + "): " + condition.Message}
			if s.CRD.Established() {
				problem.Severity = v1alpha1.SeverityWarning
			}
			return []Problem{problem}
		},
	}
}

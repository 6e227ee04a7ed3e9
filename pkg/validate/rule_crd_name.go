package validate

import (
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func crdName() Rule {
	return Rule{
		ID:       "crd-name",
		Severity: v1alpha1.SeverityError,
		Summary:  "the name, the group or the names of the resource are ones that the API server refuses",
		Why: "The name of a CRD is spec.names.plural + \".\" + spec.group, the group is a domain with a dot, and plural, singular and short names are " +
			"lower-case labels. The group and the plural can never be changed, the kind and the scope not once the CRD is established.",
		Fix: "Correct the field that the path names. If the CRD exists with objects under the other name, it is another CRD: it needs one of its own.",
		Claims: func(r Refusal) bool {
			return r.Path == "metadata.name" || r.Path == "spec.group" || strings.HasPrefix(r.Path, "spec.names.")
		},
		Explain: func(s *Subject, r Refusal) Problem {
			if want := s.CRD.Spec.Names.Plural + "." + s.CRD.Spec.Group; r.Path == "metadata.name" && s.CRD.Name != want &&
				strings.Contains(r.Detail, "spec.names.plural") {
				return Problem{
					Message: "the name " + s.CRD.Name + " must be spec.names.plural + \".\" + spec.group, which is " + want,
				}
			}
			return Problem{}
		},
	}
}

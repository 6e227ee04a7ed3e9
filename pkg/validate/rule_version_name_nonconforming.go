package validate

import (
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/apiversion"
)

func versionNameNonconforming() Rule {
	return Rule{
		ID:       "version-name-nonconforming",
		Severity: v1alpha1.SeverityInfo,
		Summary:  "a version is not named like v1, v1beta1 or v1alpha1",
		Why: "Such names come after all others, in alphabetical order with digits not read as numbers: foo10 before foo2, and the dated name of an " +
			"older release before that of a newer one. The first of them is what kubectl uses if no other version is served.",
		Fix:   "Nothing, if the order does not matter; a version cannot be renamed. Name new versions like v1, v1beta1 or v1alpha1.",
		Check: checkVersionNameNonconforming,
	}
}

func checkVersionNameNonconforming(s *Subject) []Problem {
	problem := Problem{}
	var odd []string
	for _, e := range s.entries() {
		if apiversion.Parse(e.Name).Stability != apiversion.NonConforming || len(validation.IsDNS1035Label(e.Name)) > 0 || looksLike(e.Name) != "" {
			continue
		}
		if len(odd) == 0 {
			problem.Path, problem.Version = e.path("name"), e.Name
		}
		odd = append(odd, e.Name)
	}
	switch len(odd) {
	case 0:
		return nil
	case 1:
		problem.Message = "version name " + odd[0] + " is not like v1, v1beta1 or v1alpha1: it comes after all that are, in alphabetical order"
	default:
		// One finding, because it is one decision: how the project names versions.
		problem.Version = ""
		problem.Message = "version names " + listed(odd) + " are not like v1, v1beta1 or v1alpha1: they come after all that are, in alphabetical order"
	}
	return []Problem{problem}
}

package validate

import (
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/compat"
)

func lowerVersionCannotExpress() Rule {
	return Rule{
		ID:       "lower-version-cannot-express",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "a lower version has no way to write what the preferred version requires or allows",
		Why: "An object that is written at a version without a required field is invalid at the version that requires it: a client of that version " +
			"reads an object that it may not be able to write back. A value that only one version's enum has reaches clients of the other, which " +
			"cannot write it back either. With a webhook it is the converter's business.",
		Fix:   "Add the field to the lower version, give it a default, or do not require it; add the values to both enums.",
		Check: checkLowerVersionCannotExpress,
	}
}

func checkLowerVersionCannotExpress(s *Subject) []Problem {
	all := s.described()
	preferred, ok := named(all, s.KubectlDefault)
	if !ok || stub(preferred.schema) {
		return nil
	}
	type inexpressible struct{ required, enums []string }
	known := memo[inexpressible]{}
	var problems []Problem
	for _, version := range all {
		if version.Name == preferred.Name || !version.Served || stub(version.schema) {
			continue
		}
		found := known.of(version, func() inexpressible {
			return inexpressible{requiredAndAbsent(version, preferred), refusedValues(preferred, version)}
		})
		path := version.path("schema.openAPIV3Schema")
		if len(found.required) > 0 {
			problem := Problem{
				Version: version.Name, Path: path,
				Message: version.Name + " lacks " + fields(found.required) + " that " + preferred.Name + " requires",
				Fix:     "Add what is missing to the schema of " + version.Name + ", or give it a default in that of " + preferred.Name + ".",
			}
			switch {
			case s.Webhook():
				problem.Severity = v1alpha1.SeverityInfo
				problem.Fix = "Check that the converter fills the fields in."
			case s.unpatched():
				problem.Severity = v1alpha1.SeverityInfo
			}
			problems = append(problems, problem)
		}
		if len(found.enums) > 0 {
			problems = append(problems, Problem{
				Severity: v1alpha1.SeverityInfo,
				Version:  version.Name, Path: path,
				Message: version.Name + " refuses values that " + preferred.Name + " allows: " + strings.Join(found.enums, "; "),
				Fix:     "Add the values to the schema of " + version.Name + ", or have clients that use them move to " + preferred.Name + ".",
			})
		}
	}
	return problems
}

// requiredAndAbsent returns the fields that one version lacks and the other
// requires. Status is left out: it is not clients that write it.
func requiredAndAbsent(version, preferred described) []string {
	absent := map[string]bool{}
	var required []string
	for _, difference := range compat.Compare(version.schema, preferred.schema) {
		switch {
		case inStatus(difference.Path):
		case difference.Kind == compat.KindNewField:
			absent[difference.Path] = true
		case difference.Kind == compat.KindRequired && absent[difference.Path]:
			required = append(required, difference.Path)
		}
	}
	return required
}

// refusedValues returns the enum values of one version that another refuses, as
// "spec.mode: "Fast"".
func refusedValues(from, to described) []string {
	const most = 10
	var refused []string
	more := 0
	for _, difference := range compat.Compare(from.schema, to.schema) {
		switch {
		case difference.Kind != compat.KindEnum || inStatus(difference.Path):
		case len(refused) == most:
			more++
		default:
			values := difference.From
			if values == compat.AnyValue {
				values = "all but " + difference.To
			}
			refused = append(refused, difference.Path+": "+values)
		}
	}
	if more > 0 {
		refused = append(refused, "and of "+itoa(more)+" more fields")
	}
	return refused
}

package printers

import (
	"fmt"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

// writeFailures writes the groups of a step: who refused what, the first names,
// and what to do.
func writeFailures(t *textWriter, step v1alpha1.StepReport) {
	for _, group := range step.FailureGroups {
		t.line(2, "%s: %s %s", step.ID, english.Plural(group.Count, "object"), groupTitle(group))
		names := strings.Join(group.Examples, ", ")
		if more := group.Count - int64(len(group.Examples)); more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		t.line(6, "%s", names)
		t.line(6, "the server says: %s", group.Message)
		t.line(6, "to do: %s", group.Resolve)
	}
}

// groupTitle returns "refused by policy frozen (AdmissionDenied)".
func groupTitle(group v1alpha1.FailureGroup) string {
	title := group.Outcome
	who := party(group.By)
	if group.ByName != "" {
		who += " " + group.ByName
	}
	switch {
	case who == "":
	case group.Outcome == v1alpha1.FailureRefused:
		title += " by " + who
	default:
		title += " at " + who
	}
	return fmt.Sprintf("%s (%s)", title, group.Reason)
}

// party names a party as people do.
func party(by v1alpha1.Party) string {
	switch by {
	case v1alpha1.PartySchema:
		return "schema validation"
	case v1alpha1.PartyWebhook:
		return "admission webhook"
	case v1alpha1.PartyPolicy:
		return "admission policy"
	case v1alpha1.PartyAdmission:
		return "an admission plugin"
	case v1alpha1.PartyConversion:
		return "conversion"
	case v1alpha1.PartyQuota:
		return "quota"
	case v1alpha1.PartySize:
		return "a limit of size"
	case v1alpha1.PartyRBAC:
		return "RBAC"
	}
	return string(by)
}

package printers

import (
	"fmt"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// who returns who a row is about. Requests of one user with different clients are
// in different rows, which the user agent tells apart; its first word, as
// "kubectl/v1.37.2", is what people know.
func who(e v1alpha1.UsageEvidence) string {
	text := e.WhoKind + " " + e.Who
	if e.Requests == nil {
		return text
	}
	agent, _, _ := strings.Cut(e.Requests.UserAgent, " ")
	if agent != "" {
		text += " (" + agent + ")"
	}
	if by := e.Requests.ImpersonatedBy; by != "" {
		text += " impersonated by " + by
	}
	return text
}

// usageNote returns what there is to know beside the columns.
func usageNote(e v1alpha1.UsageEvidence) string {
	var notes []string
	if e.Note != "" {
		notes = append(notes, e.Note)
	}
	if e.Requests == nil || e.Source != v1alpha1.UsageAudit {
		return e.Note
	}
	var verbs []string
	for _, verb := range e.Requests.Verbs {
		text := fmt.Sprintf("%d %s", verb.Count, verb.Verb)
		if verb.Code != 0 {
			text += fmt.Sprintf(" (%d)", verb.Code)
		}
		verbs = append(verbs, text)
	}
	for _, list := range []struct {
		title string
		texts []string
	}{{"", verbs}, {"from ", e.Requests.Addresses}, {"groups ", e.Requests.Groups}} {
		if len(list.texts) > 0 {
			notes = append(notes, list.title+strings.Join(list.texts, ", "))
		}
	}
	return strings.Join(notes, "; ")
}

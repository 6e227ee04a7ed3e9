package validate

import (
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func deprecationWarningInvalid() Rule {
	return Rule{
		ID:       "deprecation-warning-invalid",
		Severity: v1alpha1.SeverityError,
		Summary:  "a deprecationWarning is one that the API server refuses",
		Why: "The text is sent in an HTTP header with each request. The API server takes 1 to 256 bytes of printable characters, " +
			"and only on a version with deprecated: true.",
		Fix:     "Shorten or correct the text, remove it to get the server's own, or set deprecated: true.",
		Fixable: true,
		Claims: func(r Refusal) bool {
			return strings.HasPrefix(r.Path, "spec.versions[") && strings.HasSuffix(r.Path, "].deprecationWarning")
		},
		Explain: explainDeprecationWarning,
	}
}

func explainDeprecationWarning(s *Subject, r Refusal) Problem {
	e, ok := s.entryAt(r.Path)
	if !ok || e.DeprecationWarning == nil {
		return Problem{}
	}
	text := *e.DeprecationWarning
	switch {
	case text == "":
		return Problem{
			Message: "deprecationWarning of " + e.Name + " is empty",
			Fix:     "Remove the field: the API server then sends a text of its own if the version is deprecated.",
			Edits:   []Edit{{Path: r.Path, Remove: true}},
		}
	case !e.Deprecated:
		return Problem{
			Message: e.Name + " has a deprecationWarning but not deprecated: true",
			Fix:     "Set deprecated: true if " + e.Name + " is deprecated; otherwise remove deprecationWarning.",
		}
	case strings.Contains(r.Detail, "256"):
		return Problem{
			Message: "deprecationWarning of " + e.Name + " has " + itoa(len(text)) + " bytes; at most 256 are allowed",
			Fix:     "Shorten the text. Letters outside ASCII count as two bytes or more.",
		}
	}
	return Problem{
		Message: "deprecationWarning of " + e.Name + " " + r.Detail,
		Fix:     "Write the text on one line, without line breaks, tabs and no-break spaces.",
	}
}

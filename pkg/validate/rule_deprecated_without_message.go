package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/apiversion"
)

func deprecatedWithoutMessage() Rule {
	return Rule{
		ID:       "deprecated-without-message",
		Severity: v1alpha1.SeverityInfo,
		Summary:  "a deprecated version has no deprecationWarning of its own",
		Why: "The API server then sends a text of its own, which names a replacement only where a served version that is not deprecated has a " +
			"higher priority. A new version with a lower priority, such as v2alpha1 after v1beta1, is never named, and clients are not told where to go. " +
			"Only then is it a warning.",
		Fix: "Set deprecationWarning to a text that names the deprecated group, version and kind, and those that replace it " +
			"(at most 256 bytes).",
		Fixable: true,
		Check:   each(checkDeprecatedWithoutMessage),
	}
}

func checkDeprecatedWithoutMessage(s *Subject, best string, e entry) *Problem {
	if !e.Deprecated || !e.Served || e.DeprecationWarning != nil {
		return nil
	}
	problem := &Problem{Path: e.path("deprecationWarning")}
	start := "deprecated version " + e.Name + " has no deprecationWarning: "
	switch {
	case best == "":
		problem.Message = start + "the server's own text names no replacement, and no version of the CRD can be one"
		problem.Fix = "Say in deprecationWarning what to use instead of the kind, or that nothing replaces it."
		return problem
	case hinted(e.Name, best) && apiversion.Parse(best).Stability == apiversion.NonConforming:
		// Of names that do not conform the alphabetical order says nothing about
		// which is newer: a person has to decide.
		problem.Message = start + "the server's own text names " + best + ", which only comes first in alphabetical order"
		problem.Fix = "Name the version that replaces it in deprecationWarning."
		return problem
	case hinted(e.Name, best):
		problem.Message = start + "clients get the server's own text, which names " + best
	default:
		problem.Severity = v1alpha1.SeverityWarning
		problem.Message = start + "the server's own text does not name " + best + ", whose priority is not higher"
	}
	if s.Live() {
		problem.Fix = s.Command("deprecate", e.Name)
	}
	if text := s.Names(e.Name) + " is deprecated; use " + s.Names(best); s.mayBeWarning(text) {
		problem.Edits = []Edit{{Path: problem.Path, Set: text}}
	}
	return problem
}

// hinted reports whether the server's own text for a deprecated version names
// the best one (defaultDeprecationWarning in customresource_handler.go).
func hinted(deprecated, best string) bool {
	return apiversion.Compare(best, deprecated) > 0 && !apiversion.Tie(best, deprecated)
}

// mayBeWarning reports whether the server would take a text that was put
// together from the names of the CRD.
func (s *Subject) mayBeWarning(text string) bool {
	if s.CRD.Spec.Group == "" || s.CRD.Spec.Names.Kind == "" || len(text) > 256 {
		return false
	}
	for _, r := range text {
		if r <= ' ' && r != ' ' || r > '~' {
			return false
		}
	}
	return true
}

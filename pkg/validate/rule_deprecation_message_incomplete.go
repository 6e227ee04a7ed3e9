package validate

import (
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func deprecationMessageIncomplete() Rule {
	return Rule{
		ID:       "deprecation-message-incomplete",
		Severity: v1alpha1.SeverityInfo,
		Summary:  "a deprecationWarning does not say what is deprecated or what to use instead",
		Why: "The warning reaches people in the output of whatever tool sent the request, often without a hint which of many objects it is about. " +
			"The Kubernetes documentation asks that it names the deprecated and the replacing group, version and kind.",
		Fix:   "Name them, as in \"example.com/v1beta1 CronTab is deprecated; use example.com/v1 CronTab\" (at most 256 bytes).",
		Check: each(checkDeprecationMessageIncomplete),
	}
}

func checkDeprecationMessageIncomplete(s *Subject, best string, e entry) *Problem {
	if !e.Deprecated || !e.Served || e.DeprecationWarning == nil || *e.DeprecationWarning == "" {
		return nil
	}
	mentioned := s.mentions(*e.DeprecationWarning)
	group := s.CRD.Spec.Group + "/"
	var missing []string
	if !slices.Contains(mentioned.own, e.Name) {
		missing = append(missing, group+e.Name)
	}
	if names := s.CRD.Spec.Names; !bare(mentioned.text, names.Kind) && !bare(strings.ToLower(mentioned.text), names.Plural) {
		missing = append(missing, "the kind "+names.Kind)
	}
	replaced := mentioned.others || slices.ContainsFunc(mentioned.own, func(version string) bool { return version != e.Name })
	if best != "" && !replaced {
		missing = append(missing, "the replacing "+group+best)
	}
	if len(missing) == 0 {
		return nil
	}
	problem := &Problem{
		Path:    e.path("deprecationWarning"),
		Message: "deprecationWarning of " + e.Name + " does not name " + strings.Join(missing, ", nor "),
	}
	if best != "" {
		problem.Fix = "For example: \"" + s.Names(e.Name) + " is deprecated; use " + s.Names(best) + "\""
	}
	return problem
}

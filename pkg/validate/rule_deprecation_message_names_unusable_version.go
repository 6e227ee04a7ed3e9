package validate

import "github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"

func deprecationMessageNamesUnusableVersion() Rule {
	return Rule{
		ID:       "deprecation-message-names-unusable-version",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "a deprecationWarning points to a version that is missing, not served or deprecated itself",
		Why: "Clients that follow the advice get an error, or the next deprecation warning. The text is mostly a leftover from an earlier " +
			"release, which pointed to what was the newest version then.",
		Fix:   "Point to a served version that is not deprecated.",
		Check: checkDeprecationMessageNamesUnusableVersion,
	}
}

func checkDeprecationMessageNamesUnusableVersion(s *Subject) []Problem {
	entries := s.entries()
	byName := make(map[string]entry, len(entries))
	for _, e := range entries {
		byName[e.Name] = e
	}
	return each(func(s *Subject, best string, e entry) *Problem {
		if !e.Deprecated || !e.Served || e.DeprecationWarning == nil {
			return nil
		}
		why := unusable(byName, e.Name, s.mentions(*e.DeprecationWarning))
		if why == "" {
			return nil
		}
		problem := &Problem{
			Path:    e.path("deprecationWarning"),
			Message: "deprecationWarning of " + e.Name + " points to " + why,
		}
		if best != "" {
			problem.Fix = "Point to " + s.Names(best) + "."
			if s.Live() {
				problem.Fix = s.Command("deprecate", e.Name)
			}
		}
		return problem
	})(s)
}

// unusable says what is wrong with the version that a text points to, or "" as
// soon as it names one that can be used, or another kind: other versions may be
// named for other reasons.
func unusable(versions map[string]entry, deprecated string, mentioned warningText) string {
	if mentioned.others {
		return ""
	}
	names := mentioned.own
	if named := recommended(mentioned.text); named != "" {
		if _, known := versions[named]; known {
			names = append(names, named)
		}
	}
	why := ""
	for _, name := range names {
		if name == deprecated {
			continue
		}
		e, known := versions[name]
		switch {
		case known && e.Served && !e.Deprecated:
			return ""
		case why != "":
		case !known:
			why = name + ", which spec.versions does not have"
		case !e.Served:
			why = name + ", which is not served"
		default:
			why = name + ", which is deprecated itself"
		}
	}
	return why
}

package validate

import (
	"cmp"
	"strconv"
	"strings"
)

// claimed hands each refusal to the first rule that claims it. All rules of the
// registry have a say, so that leaving a rule out does not leave its refusals to
// "server-validation".
func claimed(rules []Rule, s *Subject, add func(Rule, Problem, bool)) {
	all := Rules()
	// Upstream reports one mistake several times, as two storage versions in
	// spec.versions and in status.storedVersions: where a rule has the same to say
	// of both, it is one finding.
	type said struct{ rule, path, message string }
	known := map[said]bool{}
	for _, refusal := range s.Refusals() {
		for _, rule := range all {
			if rule.Claims == nil || !rule.Claims(refusal) {
				continue
			}
			if applied, ok := Find(rules, rule.ID); ok {
				problem := explained(applied, s, refusal)
				if one := (said{applied.ID, problem.Path, problem.Message}); !known[one] {
					known[one] = true
					add(applied, problem, true)
				}
			}
			break
		}
	}
}

// Claimed returns the rule that explains a refusal; ok is false if only
// "server-validation" would.
func Claimed(refusal Refusal) (rule Rule, ok bool) {
	for _, rule := range Rules() {
		if rule.Claims != nil && rule.Claims(refusal) {
			return rule, rule.ID != serverValidation().ID
		}
	}
	return Rule{}, false
}

// explained returns a refusal as a problem of the rule that claimed it.
func explained(rule Rule, s *Subject, refusal Refusal) Problem {
	problem := Problem{}
	if rule.Explain != nil {
		problem = rule.Explain(s, refusal)
	}
	problem.Version = cmp.Or(problem.Version, s.VersionAt(refusal.Path))
	problem.Path = cmp.Or(problem.Path, refusal.Path)
	problem.Message = cmp.Or(problem.Message, refusal.Message())
	return problem
}

// Message returns upstream's words with upstream's field, where that is not the
// one of the v1 API. Long values are left out: a schema is one.
func (r Refusal) Message() string {
	const maxValue = 200
	text := r.ErrorBody()
	if len(text) > len(r.Detail)+maxValue {
		text = string(r.Type) + ": " + r.Detail
		if r.Detail == "" {
			text = string(r.Type)
		}
	}
	if r.Field != r.Path {
		text = r.Field + ": " + text
	}
	return "the API server refuses it: " + text
}

// VersionAt returns the name of the version that a path leads into, or "".
func (s *Subject) VersionAt(path string) string {
	if e, ok := s.entryAt(path); ok {
		return e.Name
	}
	return ""
}

// versionIndex returns the index of the version that a path leads into, or -1.
func versionIndex(path string) int {
	rest, ok := strings.CutPrefix(path, "spec.versions[")
	if !ok {
		return -1
	}
	index, _, _ := strings.Cut(rest, "]")
	i, err := strconv.Atoi(index)
	if err != nil {
		return -1
	}
	return i
}

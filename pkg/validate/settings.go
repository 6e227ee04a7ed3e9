package validate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// Settings choose among rules and change their severities.
type Settings struct {
	// Only are the ids of the rules to apply; empty applies all.
	Only []string
	// Skip are the ids of rules not to apply.
	Skip []string
	// Severity changes the severity of all findings of a rule, by id.
	Severity map[string]v1alpha1.Severity
}

// UnknownRuleError names a rule that does not exist.
type UnknownRuleError struct {
	ID string
	// Nearest is the id that was probably meant, or "".
	Nearest string
}

// Error suggests what was meant.
func (e *UnknownRuleError) Error() string {
	text := fmt.Sprintf("there is no rule %q", e.ID)
	if e.Nearest != "" {
		return text + fmt.Sprintf("; did you mean %s?", e.Nearest)
	}
	return text + "; kubectl crdver validate --list-rules lists them"
}

// Unknown returns the error for a rule that does not exist.
func Unknown(rules []Rule, id string) error {
	ids := make([]string, 0, len(rules))
	for _, rule := range rules {
		ids = append(ids, rule.ID)
	}
	nearest := lifecycle.Nearest(id, ids)
	for _, known := range ids {
		if nearest == "" && id != "" && strings.Contains(known, id) {
			nearest = known
		}
	}
	return &UnknownRuleError{ID: id, Nearest: nearest}
}

// ParseSeverity reads error, warning or info; "warn" and "note" are what other
// tools call them.
func ParseSeverity(text string) (v1alpha1.Severity, error) {
	switch severity := v1alpha1.Severity(strings.ToLower(text)); severity {
	case v1alpha1.SeverityError, v1alpha1.SeverityWarning, v1alpha1.SeverityInfo:
		return severity, nil
	case "warn":
		return v1alpha1.SeverityWarning, nil
	case "note", "notice":
		return v1alpha1.SeverityInfo, nil
	default:
		return "", fmt.Errorf("severity %q is not error, warning or info", text)
	}
}

// Select returns the rules that the settings leave, with the severities that
// they ask for. Every id has to be that of a rule.
func Select(rules []Rule, settings Settings) ([]Rule, error) {
	var unknown []error
	for _, id := range slices.Concat(settings.Only, settings.Skip, slices.Sorted(maps.Keys(settings.Severity))) {
		if _, ok := Find(rules, id); !ok {
			unknown = append(unknown, Unknown(rules, id))
		}
	}
	if len(unknown) > 0 {
		return nil, errors.Join(unknown...)
	}
	var selected []Rule
	for _, rule := range rules {
		if len(settings.Only) > 0 && !slices.Contains(settings.Only, rule.ID) || slices.Contains(settings.Skip, rule.ID) {
			continue
		}
		if severity, ok := settings.Severity[rule.ID]; ok {
			rule.Severity, rule.fixedSeverity = severity, true
		}
		selected = append(selected, rule)
	}
	if len(selected) == 0 {
		return nil, errors.New("no rule is left to apply")
	}
	return selected, nil
}

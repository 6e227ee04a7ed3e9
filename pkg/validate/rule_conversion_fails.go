package validate

import (
	"maps"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func conversionFails() Rule {
	return Rule{
		ID:       "conversion-fails",
		Severity: v1alpha1.SeverityError,
		Summary:  "the API server cannot convert the objects",
		Why: "An object was asked for at a served version, and the conversion webhook did not return it. The API server then reports the object as " +
			"corrupt; it is not, and can be read again as soon as the webhook answers. " + clusterWide,
		Fix:      "Look at the log of the webhook. Do not delete objects that are reported as corrupt, and do not change the storage version, until it answers.",
		LiveOnly: true,
		Check: func(s *Subject) []Problem {
			found := s.converter()
			if found == nil || s.conversionExplained() {
				return nil
			}
			var problems []Problem
			for _, version := range slices.Sorted(maps.Keys(found.Failures)) {
				problems = append(problems, Problem{
					Version: version,
					Path:    "spec.conversion",
					Message: "objects cannot be read at " + version + ", because conversion fails: " + oneLine(found.Failures[version]),
				})
			}
			return problems
		},
	}
}

// conversionExplained reports whether another rule says why conversion fails.
func (s *Subject) conversionExplained() bool {
	found := s.converter()
	if found.TLSError != "" {
		return true
	}
	return found.Error == "" && s.service() != "" &&
		(found.NamespaceMissing || found.ServiceMissing || found.PortMissing || found.Endpoints != nil && *found.Endpoints == 0)
}

// oneLine makes an error of a cluster fit a message.
func oneLine(text string) string {
	const most = 300
	text = strings.TrimSuffix(strings.Join(strings.Fields(text), " "), ".")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

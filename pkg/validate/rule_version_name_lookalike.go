package validate

import (
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/apiversion"
)

func versionNameLookalike() Rule {
	return Rule{
		ID:       "version-name-lookalike",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "the name of a version looks like v1, v1beta1 or v1alpha1, and is ordered differently",
		Why: "Only v + number, optionally followed by alpha or beta + number, takes part in the order of stability. v1beta, v1rc1 and v1-beta1 do not: " +
			"they come after every alpha, in alphabetical order. v01 does, as the same as v1.",
		Fix:   "A version cannot be renamed: add one with a proper name, move clients there and retire this one.",
		Check: checkVersionNameLookalike,
	}
}

func checkVersionNameLookalike(s *Subject) []Problem {
	tied := map[string]bool{}
	for _, v := range s.Versions {
		if v.TiesWith != "" {
			tied[v.Name] = true
		}
	}
	return each(func(_ *Subject, _ string, e entry) *Problem {
		why := looksLike(e.Name)
		switch {
		case why == "", len(validation.IsDNS1035Label(e.Name)) > 0:
			return nil
		case tied[e.Name]:
			return nil // Told by version-priority-tie; only zeros in front lead to one.
		}
		return &Problem{Path: e.path("name"), Message: "version name " + e.Name + " " + why}
	})(s)
}

// looksLike says how a name differs from the one that it looks like, or "" if
// it looks like none or is one.
func looksLike(name string) string {
	if plain := withoutZeros(name); apiversion.Parse(name).Stability != apiversion.NonConforming {
		if plain != name {
			return "has the same priority as " + plain + ": zeros in front do not count"
		}
		return ""
	}
	if regexp.MustCompile(`^v\d+((alpha|beta)\d+)?$`).MatchString(name) {
		return "has a number that is too large for the API server: it counts as a name that does not conform"
	}
	match := regexp.MustCompile(`^v(\d+)[-.]?(alpha|beta|a|b|rc|pre|preview|gamma|dev|ga)[-.]?(\d*)([-.].*)?$`).FindStringSubmatch(name)
	if match == nil {
		return ""
	}
	text := "does not conform, so it comes after every GA, beta and alpha version"
	switch match[2] {
	case "alpha", "a":
		text += "; alpha names are like v" + match[1] + "alpha" + number(match[3])
	case "beta", "b":
		text += "; beta names are like v" + match[1] + "beta" + number(match[3])
	}
	return text
}

func number(digits string) string {
	if digits == "" {
		return "1"
	}
	return digits
}

// withoutZeros takes zeros in front off the numbers in a name.
func withoutZeros(name string) string {
	return regexp.MustCompile(`([a-z])0+(\d)`).ReplaceAllString(name, "$1$2")
}

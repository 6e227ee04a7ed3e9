package validate

import (
	"fmt"
	"slices"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/apiversion"
)

func defaultVersionDeprecated() Rule {
	return Rule{
		ID:       "default-version-deprecated",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "the version that kubectl uses by default is deprecated, and another served version is not",
		Why: "The default is the highest-priority served version: GA before beta before alpha, whatever the number, and whether it is deprecated does " +
			"not matter. So v2alpha1 never comes before v1beta1. Whoever names no version keeps using the deprecated one, gets its warning, and does not " +
			"see, or with the strategy None drops, what only the new version has.",
		Fix:   "Release the new version under a name with a higher priority, or stop serving the deprecated one.",
		Check: checkDefaultVersionDeprecated,
	}
}

func checkDefaultVersionDeprecated(s *Subject) []Problem {
	old, best := s.KubectlDefault, s.Replacement("")
	if old == "" || best == "" || best == old {
		return nil
	}
	problem := Problem{
		Version: old,
		Path:    s.VersionPath(old, "deprecated"),
		Message: fmt.Sprintf("kubectl's default %s is deprecated, and %s can never become the default while %s is served", old, best, old),
		Fix:     "Stop serving " + old + ".",
	}
	if s.Live() {
		problem.Fix = s.Command("retire", old) + " --until unserve"
	}
	if name := s.outranking(old, best); name != "" {
		problem.Fix = "Release " + best + " as " + name + ", or stop serving " + old + "."
		if s.Live() {
			problem.Fix = "Release " + best + " as " + name + ", or stop serving " + old + ": " + s.Command("retire", old) + " --until unserve"
		}
	}
	return []Problem{problem}
}

// outranking returns a name for a version with its own number and the stability
// of the one that it has to come before, or "" if there is none.
func (s *Subject) outranking(old, best string) string {
	was, is := apiversion.Parse(old), apiversion.Parse(best)
	if was.Stability == apiversion.NonConforming || is.Stability == apiversion.NonConforming {
		return ""
	}
	name := fmt.Sprintf("v%d", is.Major)
	if was.Stability != apiversion.GA {
		name += fmt.Sprintf("%s%d", was.Stability, max(is.Minor, 1))
	}
	if apiversion.Compare(name, old) <= 0 || slices.Contains(s.CRD.VersionNames(), name) {
		return ""
	}
	return name
}

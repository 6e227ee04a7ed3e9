package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/compat"
)

func defaultDiffers() Rule {
	return Rule{
		ID:       "default-differs",
		Severity: v1alpha1.SeverityInfo,
		Summary:  "a default is set in one version and not, or differently, in another",
		Why: "The same manifest means something else at each version, and an object that is read back has fields that nobody wrote: GitOps tools show " +
			"them as a difference that never goes away. The defaults of the storage version are also set when older objects are read, and a rewrite persists them.",
		Fix: "Give both versions the same defaults; a default that is once released cannot be changed without changing what existing objects mean.",
		Check: func(s *Subject) []Problem {
			all := s.described()
			storage, ok := named(all, s.Storage)
			if !ok || stub(storage.schema) {
				return nil
			}
			known := memo[[]string]{}
			var problems []Problem
			for _, version := range all {
				if version.Name == storage.Name || !version.Served || stub(version.schema) {
					continue
				}
				if differ := known.of(version, func() []string { return differentDefaults(version, storage) }); len(differ) > 0 {
					problems = append(problems, Problem{
						Version: version.Name, Path: version.path("schema.openAPIV3Schema"),
						Message: "defaults of " + version.Name + " and of the storage version " + storage.Name + " differ: " + listed(differ),
					})
				}
			}
			return problems
		},
	}
}

// differentDefaults returns each default that differs, as
// "spec.mode (none, and "Fast")".
func differentDefaults(version, storage described) []string {
	var differ []string
	for _, difference := range compat.Compare(version.schema, storage.schema) {
		if difference.Kind == compat.KindDefault {
			differ = append(differ, difference.Path+" ("+difference.From+", and "+difference.To+")")
		}
	}
	return differ
}

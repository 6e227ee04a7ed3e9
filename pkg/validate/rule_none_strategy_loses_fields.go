package validate

import (
	"slices"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func noneStrategyLosesFields() Rule {
	return Rule{
		ID:       "none-strategy-loses-fields",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "with strategy None, fields of a version are dropped because another version lacks them",
		Why: "Strategy None changes nothing but apiVersion. What the schema of the storage version lacks is pruned when an object is written, " +
			"whichever version the client used; what the client's version lacks, the client does not see, and drops when it writes the object back. " +
			"A renamed field is lost in both directions. Nothing reports it: the write succeeds, and metadata.generation does not change.",
		Fix: "Add the fields to the schema that lacks them, or convert with a webhook.",
		Check: func(s *Subject) []Problem {
			all := s.described()
			storage, ok := named(all, s.Storage)
			if s.Webhook() || !ok || stub(storage.schema) {
				return nil // A stub is the rule schema-stub's.
			}
			known := memo[lossy]{}
			var problems []Problem
			for _, version := range all {
				if version.Name == storage.Name || stub(version.schema) {
					continue
				}
				found := known.of(version, func() lossy {
					return lossy{
						lost:   storage.schema.Missing(version.schema),
						hidden: version.schema.Missing(storage.schema),
					}
				})
				if len(found.lost) > 0 {
					problems = append(problems, losing(s, version, storage, found.lost))
				}
				if len(found.hidden) > 0 && version.Served {
					problems = append(problems, hiding(version, storage, found.hidden))
				}
			}
			return problems
		},
	}
}

// lossy is what separates a version from the storage version: the fields that
// writing loses, and those that clients of the version do not see.
type lossy struct{ lost, hidden []string }

// losing is the problem that the storage version lacks fields of a version. What
// controllers report in status they report again, so that is worth less.
func losing(s *Subject, version, storage described, lost []string) Problem {
	problem := Problem{
		Version: version.Name,
		Path:    version.path("schema.openAPIV3Schema"),
		Message: "every write at " + version.Name + " loses " + fields(lost) + ", which the storage version " + storage.Name + " lacks",
		Fix:     "Add what is missing to the schema of " + storage.Name + ", or convert with a webhook.",
	}
	if s.CRD.Spec.Conversion == nil {
		problem.Message += "; without spec.conversion the strategy is None"
		problem.Fix += " If a kustomization adds the webhook, validate what it builds (-k)."
	}
	onlyStatus := !slices.ContainsFunc(lost, func(path string) bool { return !inStatus(path) })
	if version.stored {
		problem.Severity = v1alpha1.SeverityError
		problem.Message = "objects stored at " + version.Name + " lose " + fields(lost) + " when they are rewritten, which the storage version " +
			storage.Name + " lacks"
		problem.Fix = "Add what is missing to the schema of " + storage.Name + " before any object is written again, a migration included."
	}
	switch {
	case onlyStatus && version.stored:
		problem.Severity = v1alpha1.SeverityWarning
	case onlyStatus, s.unpatched():
		problem.Severity = v1alpha1.SeverityInfo
	}
	return problem
}

// hiding is the problem that a version lacks fields of the storage version.
func hiding(version, storage described, hidden []string) Problem {
	return Problem{
		Severity: v1alpha1.SeverityInfo,
		Version:  version.Name,
		Path:     version.path("schema.openAPIV3Schema"),
		Message: "clients of " + version.Name + " do not see " + fields(hidden) + " of the storage version " + storage.Name +
			", and an update by them drops what they do not see",
		Fix: "Add what is missing to the schema of " + version.Name + ", convert with a webhook, or have clients move to " + storage.Name + ".",
	}
}

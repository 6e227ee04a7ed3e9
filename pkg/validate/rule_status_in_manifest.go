package validate

import "github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"

func statusInManifest() Rule {
	return Rule{
		ID:       "status-in-manifest",
		Severity: v1alpha1.SeverityInfo,
		Summary:  "the manifest has a status, which has no effect",
		Why: "The API server sets the status itself and ignores what a manifest says. Generators wrote an empty one; schema checkers refuse its nulls, " +
			"and GitOps tools show a difference that never goes away.",
		Fix:          "Remove the status from the manifest.",
		ManifestOnly: true,
		Fixable:      true,
		Check: func(s *Subject) []Problem {
			status, has := s.Document["status"]
			if fields, ok := status.(map[string]any); !has || ok && len(fields) == 0 {
				return nil
			}
			return []Problem{{
				Path:    "status",
				Message: "status in a manifest has no effect",
				Edits:   []Edit{{Path: "status", Remove: true}},
			}}
		},
	}
}

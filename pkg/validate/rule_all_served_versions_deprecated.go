package validate

import "github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"

func allServedVersionsDeprecated() Rule {
	return Rule{
		ID:       "all-served-versions-deprecated",
		Severity: v1alpha1.SeverityInfo,
		Summary:  "all served versions are deprecated: the kind itself is being retired",
		Why: "Every request for the kind gets a warning and no version is free of it. That is right for a kind that is given up, and a mistake " +
			"where a version should have stayed.",
		Fix:   "Nothing, if the kind is to go away. Otherwise take deprecated: true off the version that clients should use.",
		Check: checkAllServedVersionsDeprecated,
	}
}

func checkAllServedVersionsDeprecated(s *Subject) []Problem {
	served := s.Served()
	if len(served) == 0 || s.Replacement("") != "" {
		return nil
	}
	message := "all served versions (" + listed(served) + ") are deprecated: the kind itself is being retired"
	if len(served) == 1 {
		message = "the only served version " + served[0] + " is deprecated: the kind itself is being retired"
	}
	return []Problem{{Path: "spec.versions", Message: message}}
}

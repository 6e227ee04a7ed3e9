package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func scaleSubresourceDiffers() Rule {
	return Rule{
		ID:       "scale-subresource-differs",
		Severity: v1alpha1.SeverityInfo,
		Summary:  "a served version has no scale subresource, while another has one",
		Why: "The command kubectl scale, the horizontal pod autoscaler and disruption budgets use /scale at the version that they are told to use. " +
			"At the version without it they fail.",
		Fix: "Set subresources.scale on every served version, with the paths of that version.",
		Check: func(s *Subject) []Problem {
			return s.lacking("scale", func(e entry) bool { return e.Subresources != nil && e.Subresources.Scale != nil })
		},
	}
}

package validate

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func conversionReviewVersions() Rule {
	const path = webhookPath + ".conversionReviewVersions"
	return Rule{
		ID:       "conversion-review-versions",
		Severity: v1alpha1.SeverityError,
		Summary:  "conversionReviewVersions is missing, wrong, or does not have v1",
		Why: "It lists the versions of ConversionReview that the webhook understands; the API server sends the first one that it knows. " +
			"Those are v1 and the older v1beta1, of which the API server does not check what the answer is an answer to.",
		Fix:     "Set conversionReviewVersions: [v1], with a webhook that answers in the version that it was asked in.",
		Fixable: true,
		Claims:  func(r Refusal) bool { return under(r.Path, path) },
		Explain: func(_ *Subject, r Refusal) Problem {
			switch {
			case r.Type == field.ErrorTypeRequired:
				return Problem{Message: "conversionReviewVersions is missing"}
			case r.Detail == "duplicate version":
				return Problem{
					Message: "conversionReviewVersions has an entry twice",
					Fix:     "Remove the second entry.",
					Edits:   []Edit{{Path: r.Path, Remove: true}},
				}
			case r.Path == path:
				return Problem{Message: "conversionReviewVersions has no version that the API server knows: it " + r.Detail}
			default:
				return Problem{Message: "conversionReviewVersions has an entry that is no version: " + r.Detail}
			}
		},
		Check: func(s *Subject) []Problem {
			if !s.Webhook() || s.CRD.Spec.Conversion.Webhook == nil {
				return nil
			}
			versions := s.CRD.Spec.Conversion.Webhook.ConversionReviewVersions
			if slices.Contains(versions, "v1") || !slices.Contains(versions, "v1beta1") {
				return nil
			}
			return []Problem{{
				Severity: v1alpha1.SeverityWarning,
				Path:     path,
				Message:  "conversionReviewVersions has v1beta1, but not v1",
				Fix:      "Have the webhook answer v1 as well, which differs in nothing but the name, and put v1 first.",
			}}
		},
	}
}

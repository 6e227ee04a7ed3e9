package validate

import "github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"

func terminating() Rule {
	return Rule{
		ID:       "terminating",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "the CRD is being deleted, and all its objects with it",
		Why: "A deletion cannot be taken back. New objects are refused and the existing ones are deleted; where a finalizer or a conversion webhook " +
			"that is gone holds one of them, the deletion waits for ever.",
		Fix:      "Wait until it is gone. If it does not go, look at the finalizers of the objects that are left and at the conversion webhook.",
		LiveOnly: true,
		Check: func(s *Subject) []Problem {
			if s.CRD.DeletionTimestamp == nil {
				return nil
			}
			message := "the CRD is being deleted"
			if objects := s.Observations.Objects; objects != nil && *objects > 0 {
				message += "; objects left: " + itoa(int(*objects))
			}
			return []Problem{{Path: "metadata.deletionTimestamp", Message: message}}
		},
	}
}

package validate

import "github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"

// serverValidation takes every refusal that no other rule explains.
func serverValidation() Rule {
	return Rule{
		ID:       "server-validation",
		Severity: v1alpha1.SeverityError,
		Summary:  "the API server refuses the CRD",
		Why: "The API server validates a CRD when it is written. With one such error nothing of the manifest is applied, " +
			"and on a live CRD every later change fails until it is corrected.",
		Fix:    "Change the field that the path names as the message says.",
		Claims: func(Refusal) bool { return true },
	}
}

package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func preserveUnknownFields() Rule {
	return Rule{
		ID:       "preserve-unknown-fields",
		Severity: v1alpha1.SeverityWarning,
		Summary:  "spec.preserveUnknownFields is true, or is written though it has no effect",
		Why: "With true, objects are not pruned, so defaults, structural schemas and webhook conversion are not to be had, and what clients misspell is stored. " +
			"The v1 API takes true only on a CRD that already has it. false is what it is anyway and the server does not return it, which GitOps tools show as a " +
			"difference; but on a cluster whose CRD still has true, that line is what turns it off.",
		Fix:     "Set spec.preserveUnknownFields to false, and x-kubernetes-preserve-unknown-fields: true in the schema where unknown fields must stay.",
		Claims:  func(r Refusal) bool { return r.Path == preserveUnknownFieldsPath },
		Explain: explainPreserveUnknownFields,
		Check:   checkPreserveUnknownFields,
	}
}

const preserveUnknownFieldsPath = "spec.preserveUnknownFields"

func explainPreserveUnknownFields(s *Subject, r Refusal) Problem {
	problem := Problem{Severity: v1alpha1.SeverityError}
	if spec, ok := s.Document["spec"].(map[string]any); ok && spec["preserveUnknownFields"] == nil {
		// The default of v1beta1 is true.
		problem.Message = "preserveUnknownFields is true where apiextensions.k8s.io/v1beta1 does not say otherwise: " + r.Detail
		problem.Fix = "Set spec.preserveUnknownFields to false, or write the manifest for apiextensions.k8s.io/v1."
	}
	return problem
}

func checkPreserveUnknownFields(s *Subject) []Problem {
	if !s.Live() {
		spec, ok := s.Document["spec"].(map[string]any)
		if !ok || spec["preserveUnknownFields"] != false {
			return nil
		}
		return []Problem{{
			Severity: v1alpha1.SeverityInfo,
			Path:     preserveUnknownFieldsPath,
			Message:  "preserveUnknownFields: false is the default and is not returned by the server, which GitOps tools may show as a difference",
			Fix: "Compare absent and false as equal. Remove the line only once no cluster has the CRD with preserveUnknownFields: true: " +
				"there it is what turns it off.",
		}}
	}
	if !s.CRD.Spec.PreserveUnknownFields {
		return nil
	}
	for _, refusal := range s.Refusals() {
		if refusal.Path == preserveUnknownFieldsPath {
			return nil
		}
	}
	return []Problem{{
		Path:    preserveUnknownFieldsPath,
		Message: "preserveUnknownFields is true: fields that no schema knows are stored, and nothing is pruned",
		Fix: "Give every version a structural schema, with x-kubernetes-preserve-unknown-fields: true where unknown fields must stay, and set " +
			"spec.preserveUnknownFields to false.",
	}}
}

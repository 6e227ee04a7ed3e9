package validate

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func notEstablished() Rule {
	return Rule{
		ID:       "not-established",
		Severity: v1alpha1.SeverityError,
		Summary:  "the CRD is not established: the API server does not serve it",
		Why:      "Until the condition Established is True no object of the kind can be read or written, whatever the versions say.",
		Fix:      "Wait a moment for a new CRD: kubectl wait --for=condition=Established crd/NAME. If it does not change, the condition's message says why.",
		LiveOnly: true,
		Check:    checkNotEstablished,
	}
}

func checkNotEstablished(s *Subject) []Problem {
	condition, path := s.condition(apiextensionsv1.Established)
	names, _ := s.condition(apiextensionsv1.NamesAccepted)
	problem := Problem{Path: path, Fix: "kubectl wait --for=condition=Established crd/" + s.CRD.Name}
	switch {
	case condition == nil || condition.Status == apiextensionsv1.ConditionUnknown:
		// For a moment this is so for every new CRD.
		problem.Severity = v1alpha1.SeverityWarning
		problem.Message = "the API server has not established the CRD yet"
	case condition.Status == apiextensionsv1.ConditionTrue:
		return nil
	case names != nil && names.Status == apiextensionsv1.ConditionFalse:
		return nil // Told by names-not-accepted, which is why.
	case condition.Reason == "Installing":
		problem.Severity = v1alpha1.SeverityWarning
		problem.Message = "the CRD is being installed and not served yet"
	default:
		problem.Message = "the CRD is not established (" + condition.Reason + "): " + condition.Message
	}
	return []Problem{problem}
}

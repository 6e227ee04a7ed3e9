package validate

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func schemaMissing() Rule {
	return Rule{
		ID:       "schema-missing",
		Severity: v1alpha1.SeverityError,
		Summary:  "a version has no schema",
		Why: "The API server refuses a version without schema.openAPIV3Schema. It would know no field of the objects, and drop all of them " +
			"but metadata.",
		Fix: "Write the schema of the version. The least that is taken is {type: object, x-kubernetes-preserve-unknown-fields: true}, " +
			"which keeps every field and checks none.",
		Claims: func(r Refusal) bool {
			return r.Type == field.ErrorTypeRequired && strings.HasPrefix(r.Path, "spec.versions[") &&
				(strings.HasSuffix(r.Path, "].schema") || strings.HasSuffix(r.Path, "].schema.openAPIV3Schema"))
		},
		Explain: func(s *Subject, r Refusal) Problem {
			return Problem{Message: s.VersionAt(r.Path) + " has no schema"}
		},
	}
}

package validate

import (
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func versionNameInvalid() Rule {
	return Rule{
		ID:       "version-name-invalid",
		Severity: v1alpha1.SeverityError,
		Summary:  "the name of a version is one that the API server refuses",
		Why: "A version is part of the URL /apis/GROUP/VERSION. Its name is a DNS-1035 label: lower-case letters, digits and \"-\", " +
			"starting with a letter, at most 63 characters. A release number such as 1.0 is none.",
		Fix: "Name the version like v1, v1beta1 or v1alpha1.",
		Claims: func(r Refusal) bool {
			return strings.HasPrefix(r.Path, "spec.versions[") && strings.HasSuffix(r.Path, "].name")
		},
		Explain: func(s *Subject, r Refusal) Problem {
			e, ok := s.entryAt(r.Path)
			switch {
			case !ok:
				return Problem{}
			case e.Name == "":
				return Problem{Message: r.Path + " is empty: a version needs a name"}
			case len(e.Name) > 63:
				return Problem{Message: "a version name of " + itoa(len(e.Name)) + " characters is not allowed: at most 63 are"}
			}
			return Problem{Message: "version name " + e.Name + " is not allowed: only lower-case letters, digits and \"-\", starting with a letter"}
		},
	}
}

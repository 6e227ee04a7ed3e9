package validate

import (
	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func schemaStub() Rule {
	return Rule{
		ID:       "schema-stub",
		Severity: v1alpha1.SeverityError,
		Summary:  "a version that is in use has a schema without any field of spec",
		Why: "The API server drops every field that the schema of a version does not know, when it reads an object at that version and when it " +
			"writes one. Through a version whose schema is a stub, clients see objects without their spec, and one write through it empties them for good.",
		Fix: "Give the version its whole schema, or x-kubernetes-preserve-unknown-fields: true under spec, " +
			"for as long as it is served or objects are stored at it.",
		Check: checkSchemaStub,
	}
}

func checkSchemaStub(s *Subject) []Problem {
	var stubs []described
	full := ""
	known := memo[bool]{}
	for _, version := range s.described() {
		switch {
		case version.Schema == nil || version.Schema.OpenAPIV3Schema == nil:
			// The rule schema-missing says so.
		case known.of(version, func() bool { return stub(version.schema) }):
			stubs = append(stubs, version)
		case full == "":
			full = version.Name
		}
	}
	if full == "" {
		return nil // The kind has nothing to lose.
	}
	problems := make([]Problem, 0, len(stubs))
	for _, version := range stubs {
		what := "reads and writes through " + version.Name + " drop"
		if !version.Served {
			what = "objects stored at " + version.Name + " lose"
		}
		problems = append(problems, Problem{
			Version: version.Name,
			Path:    version.path("schema.openAPIV3Schema"),
			Message: "the schema of " + version.Name + " has no field of spec, while that of " + full + " has: " + what + " everything",
		})
	}
	return problems
}

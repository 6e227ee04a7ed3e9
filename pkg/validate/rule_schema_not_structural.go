package validate

import (
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

func schemaNotStructural() Rule {
	return Rule{
		ID:       "schema-not-structural",
		Severity: v1alpha1.SeverityError,
		Summary:  "a schema is not structural",
		Why: "The API server must be able to tell from the schema alone what each field is: each has a type, outside of allOf, anyOf, " +
			"oneOf and not, and nothing refers to another schema. Only then it can prune, default and convert objects; it refuses any other schema.",
		Fix: "Give each field, list item and map value a type, or x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields: true. " +
			"Write out what is in definitions and $ref. Generators such as controller-gen write structural schemas.",
		Claims: func(r Refusal) bool {
			const at = ".schema.openAPIV3Schema"
			return strings.HasPrefix(r.Path, "spec.versions[") && strings.Contains(r.Path, at) && aboutStructure(r.Detail)
		},
		Explain: explainSchemaNotStructural,
	}
}

func explainSchemaNotStructural(s *Subject, r Refusal) Problem {
	const root = "openAPIV3Schema"
	_, place, _ := strings.Cut(r.Path, "."+root)
	place = strings.TrimPrefix(place, ".")
	detail, fix := r.Detail, ""
	switch {
	case strings.HasPrefix(detail, "because it is defined in "):
		// Upstream names the place in the internal version.
		junctor := detail[strings.LastIndex(detail, root)+len(root):]
		detail = "is described only in " + strings.TrimPrefix(junctor, ".")
		fix = "Describe the field outside of allOf, anyOf, oneOf and not as well, with its type."
	case strings.Contains(detail, "metadata is implicitly specified"):
		fix = "Write metadata: {type: object}; only name and generateName can be restricted."
	case detail == "must not be used at the root":
		fix = "Describe the fields with properties, or set x-kubernetes-preserve-unknown-fields: true."
	case strings.HasPrefix(detail, "must not be empty"):
		fix = "Set the type; x-kubernetes-int-or-string: true for an integer or a string, x-kubernetes-preserve-unknown-fields: true for anything."
	case detail == "must be specified":
		fix = "Set items to the schema of the items of the list."
	case strings.HasSuffix(detail, "to be structural"):
		fix = "Remove it here: it belongs outside of allOf, anyOf, oneOf and not."
	case strings.Contains(detail, " is not supported"):
		fix = "Remove it, and write out what it refers to."
	}
	if place != "" {
		detail = place + ": " + detail
	}
	return Problem{Message: "the schema of " + s.VersionAt(r.Path) + " is not structural: " + detail, Fix: fix}
}

// aboutStructure recognises the errors of ValidateStructural and NewStructural
// (apiserver/schema), and those with which the server refuses what a structural
// schema cannot have (specStandardValidatorV3).
func aboutStructure(detail string) bool {
	for _, words := range []string{
		"must not be empty at the root",
		"must not be empty for specified",
		"must be object at the root",
		"must be empty to be structural",
		"must be undefined to be structural",
		"must be false to be structural",
		"because it is defined in",
		"must not be used at the root",
		"must not specify anything other than name and generateName",
		"must be a schema object and not an array",
		"must be a schema, but is an array",
		"' is not supported",
		"definitions is not supported",
		"dependencies is not supported",
		"patternProperties is not supported",
		"additionalItems is not supported",
		"$ref is not supported",
	} {
		if strings.Contains(detail, words) {
			return true
		}
	}
	return detail == "must be specified" // items, of an array
}

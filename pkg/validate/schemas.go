package validate

import (
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"

	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/schema"
)

// described is a version that takes part in comparisons of schemas: it is
// served, or objects are or may be persisted at it. Any other version hurts
// nobody, whatever its schema.
type described struct {
	entry

	schema *schema.Schema
	// stored says that objects may be persisted at the version; only a cluster knows.
	stored bool
}

// described returns the versions whose schemas matter, as far as upstream's code
// can read them: the server refuses the others.
func (s *Subject) described() []described {
	stored := map[string]bool{}
	for _, name := range s.Stored {
		stored[name] = true
	}
	var all []described
	for _, e := range s.entries() {
		if !e.Served && !e.Storage && !stored[e.Name] {
			continue
		}
		if known := s.schemaOf(e); known != nil {
			all = append(all, described{entry: e, schema: known, stored: stored[e.Name]})
		}
	}
	return all
}

// written is a schema as it is written, and as upstream's code reads it.
type written struct {
	raw  *apiextensionsv1.CustomResourceValidation
	read schemaOf
}

// schemaOf is Schema for an entry, without looking it up by its name. Versions
// with the same schema share it: most have that of another one, and rules then
// need not look at it again.
func (s *Subject) schemaOf(e entry) *schema.Schema {
	const most = 8
	if _, known := s.schemas[e.Name]; known || s.CRD.Spec.PreserveUnknownFields {
		return s.Schema(e.Name)
	}
	for _, one := range s.recent {
		if reflect.DeepEqual(one.raw, e.CustomResourceDefinitionVersion.Schema) {
			s.schemas[e.Name] = one.read
			return s.Schema(e.Name)
		}
	}
	var read schemaOf
	read.schema, read.err = schema.New(e.CustomResourceDefinitionVersion)
	s.schemas[e.Name] = read
	if len(s.recent) == most {
		s.recent = s.recent[1:]
	}
	s.recent = append(s.recent, written{e.CustomResourceDefinitionVersion.Schema, read})
	return s.Schema(e.Name)
}

// named returns the version of a name.
func named(all []described, name string) (described, bool) {
	for _, one := range all {
		if one.Name == name {
			return one, true
		}
	}
	return described{}, false
}

// memo keeps what was found for a schema, so that 10,000 versions that share one
// cost one comparison.
type memo[T any] map[*schema.Schema]T

func (m memo[T]) of(version described, compute func() T) T {
	value, known := m[version.schema]
	if !known {
		value = compute()
		m[version.schema] = value
	}
	return value
}

// stub reports whether a schema describes nothing of what users write: no field
// of spec, and no field beside it (case 55).
func stub(s *schema.Schema) bool {
	root := s.Structural()
	if root == nil {
		return true
	}
	if open(root) {
		return false
	}
	for name, property := range root.Properties {
		switch {
		case name == "spec":
			if property.Type != "object" || len(property.Properties) > 0 || open(&property) {
				return false
			}
		case name != "apiVersion" && name != "kind" && name != "metadata" && name != "status":
			return false
		}
	}
	return true
}

func open(s *structuralschema.Structural) bool {
	return s.XPreserveUnknownFields || s.AdditionalProperties != nil
}

// inStatus reports whether a path leads into status, which users do not write.
func inStatus(path string) bool { return path == "status" || strings.HasPrefix(path, "status.") }

// fields counts and lists paths: "2 fields (spec.a, spec.b)".
func fields(paths []string) string {
	return english.Plural(len(paths), "field") + " (" + listed(paths) + ")"
}

// unpatched reports whether a manifest looks like one that is not applied as it
// is: controller-gen writes no spec.conversion, and projects add the webhook with
// a kustomization. What it says about None is then not certain. On a cluster
// spec.conversion is always set.
func (s *Subject) unpatched() bool {
	_, generated := s.CRD.Annotations["controller-gen.kubebuilder.io/version"]
	return generated && !s.Live() && s.CRD.Spec.Conversion == nil
}

package schema

import (
	"maps"
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// Missing returns the paths of the fields that another schema describes and
// this one does not know: pruning drops them from every object that is written
// at this schema's version. "[*]" stands for list items and map keys, and
// ".*" for fields that the other schema preserves without describing them.
func (s *Schema) Missing(other *Schema) []string {
	var paths []string
	if s.root == nil || other.root == nil {
		return nil
	}
	missing(other.root, s.root, "", &paths)
	return paths
}

func missing(from, to *structuralschema.Structural, path string, paths *[]string) {
	if to.XPreserveUnknownFields {
		return
	}
	if from.XPreserveUnknownFields {
		*paths = append(*paths, path+".*")
	}
	var values *structuralschema.Structural
	open := to.AdditionalProperties != nil
	if open {
		values = to.AdditionalProperties.Structural
	}
	for _, name := range slices.Sorted(maps.Keys(from.Properties)) {
		if path == "" && metaField(name) {
			continue
		}
		field := from.Properties[name]
		at := name
		if path != "" {
			at = path + "." + name
		}
		known, ok := to.Properties[name]
		switch {
		case ok:
			missing(&field, &known, at, paths)
		case !open:
			*paths = append(*paths, at)
		case values != nil:
			missing(&field, values, at, paths)
		}
	}
	if from.Items != nil && to.Items != nil {
		missing(from.Items, to.Items, path+"[*]", paths)
	}
	if from.AdditionalProperties == nil || from.AdditionalProperties.Structural == nil {
		return
	}
	switch {
	case !open:
		*paths = append(*paths, path+"[*]")
	case values != nil:
		missing(from.AdditionalProperties.Structural, values, path+"[*]", paths)
	}
}

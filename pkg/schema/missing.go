package schema

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
)

// Missing returns the paths of the fields that another schema describes and
// this one does not know: pruning drops them from every object that is written
// at this schema's version. It is upstream's pruning of a sample of the other
// schema that finds them. "[*]" stands for list items and map keys, and "*"
// for fields that the other schema preserves without describing them. Equal schemas
// cost one comparison.
func (s *Schema) Missing(other *Schema) []string {
	if s.root == other.root || reflect.DeepEqual(s.root, other.root) {
		return nil
	}
	before := other.Sample()
	after := runtime.DeepCopyJSON(before)
	pruning.Prune(after, s.root, true)
	dropped := map[string]bool{}
	compare(before, after, nil, "", dropped)
	return slices.Sorted(maps.Keys(dropped))
}

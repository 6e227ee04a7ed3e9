package managedfields_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/managedfields"
)

func TestLost(t *testing.T) {
	t.Parallel()
	apply := func(manager string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "example.com/v1"}
	}
	update := func(manager, subresource string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: subresource}
	}
	entries := func(all ...metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry { return all }
	moved := apply("a")
	moved.APIVersion = "example.com/v1beta1"
	for name, test := range map[string]struct {
		before, after []metav1.ManagedFieldsEntry
		want          []string
	}{
		"none before":          {nil, entries(apply("a")), nil},
		"the same":             {entries(apply("a"), update("b", "status")), entries(update("b", "status"), apply("a")), nil},
		"at another version":   {entries(moved), entries(apply("a")), nil},
		"all":                  {entries(update("b", ""), apply("a")), nil, []string{"a", "b"}},
		"of the status":        {entries(update("b", ""), update("b", "status")), entries(update("b", "")), []string{"b"}},
		"as another one":       {entries(apply("a")), entries(update("a", "")), []string{"a"}},
		"merged by the server": {entries(update("a", ""), update("b", "")), entries(update("ancient-changes", "")), nil},
	} {
		if got := managedfields.Lost(managedfields.Managers(test.before), test.after); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

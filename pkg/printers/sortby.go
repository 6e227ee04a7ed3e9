package printers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// SortBy sorts items by the field that --sort-by names, smallest first; items
// without the field come first, and equal ones keep their order. It is an error
// if no item has the field. An empty expression changes nothing.
//
// Kubectl's own sorter ends the process when the field holds a boolean.
func SortBy[T any](items []T, expression string) error {
	if expression == "" {
		return nil
	}
	path, err := parsePath(expression)
	if err != nil {
		return fmt.Errorf("--sort-by: %w", err)
	}
	type keyed struct {
		item T
		key  []any
	}
	sorted := make([]keyed, 0, len(items))
	found := len(items) == 0
	for _, item := range items {
		content, err := toMap(item)
		if err != nil {
			return err
		}
		values, err := find(path, content)
		if err != nil {
			return fmt.Errorf("--sort-by: %w", err)
		}
		if len(values) > 0 {
			found = true
			if err := sortable(values[0]); err != nil {
				return fmt.Errorf("--sort-by %s: %w", expression, err)
			}
		}
		sorted = append(sorted, keyed{item, values})
	}
	if !found {
		return fmt.Errorf("--sort-by: couldn't find any field with path %q in the list of objects", expression)
	}
	slices.SortStableFunc(sorted, func(a, b keyed) int {
		if len(a.key) == 0 || len(b.key) == 0 {
			return cmp.Compare(len(a.key), len(b.key))
		}
		return compareValues(a.key[0], b.key[0])
	})
	for i := range sorted {
		items[i] = sorted[i].item
	}
	return nil
}

func sortable(value any) error {
	switch value := value.(type) {
	case nil, string, bool, int64, float64:
		return nil
	case []any:
		for _, element := range value {
			if err := sortable(element); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("items cannot be sorted by an object; name one of its fields")
	}
}

// compareValues compares two values of JSON. Values of different types are
// ordered by their type, so that the order is total.
func compareValues(a, b any) int {
	if order := cmp.Compare(rank(a), rank(b)); order != 0 {
		return order
	}
	switch a := a.(type) {
	case bool:
		return cmp.Compare(number(a), number(b))
	case int64, float64:
		return cmp.Compare(number(a), number(b))
	case string:
		return compareTexts(a, b.(string))
	case []any:
		return slices.CompareFunc(a, b.([]any), compareValues)
	default:
		return 0
	}
}

func rank(value any) int {
	switch value.(type) {
	case nil:
		return 0
	case bool:
		return 1
	case int64, float64:
		return 2
	case string:
		return 3
	default:
		return 4
	}
}

func number(value any) float64 {
	switch value := value.(type) {
	case int64:
		return float64(value)
	case float64:
		return value
	case bool:
		if value {
			return 1
		}
	}
	return 0
}

// compareTexts compares texts as kubectl does: as quantities, if both are.
func compareTexts(a, b string) int {
	first, err := resource.ParseQuantity(a)
	if err != nil {
		return strings.Compare(a, b)
	}
	second, err := resource.ParseQuantity(b)
	if err != nil {
		return strings.Compare(a, b)
	}
	return first.Cmp(second)
}

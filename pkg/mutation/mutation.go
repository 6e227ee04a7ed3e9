// Package mutation changes decoded documents at random places, for fuzz tests:
// bytes that are changed hardly ever decode as another CRD. Only tests import it.
package mutation

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Change makes one change somewhere in a document: a value is taken away, emptied,
// replaced, or a list's item repeated.
func Change(random *rand.Rand, value any) {
	switch at := value.(type) {
	case map[string]any:
		if len(at) == 0 {
			return
		}
		key := slices.Sorted(maps.Keys(at))[random.IntN(len(at))]
		switch random.IntN(8) {
		case 0:
			delete(at, key)
		case 1:
			at[key] = something(random)
		default:
			Change(random, at[key])
		}
	case []any:
		if len(at) == 0 {
			return
		}
		i := random.IntN(len(at))
		switch random.IntN(8) {
		case 0:
			at[i] = something(random)
		case 1:
			at[i] = at[random.IntN(len(at))]
		default:
			Change(random, at[i])
		}
	}
}

// something returns a value that means something somewhere in a CRD.
func something(random *rand.Rand) any {
	some := []any{
		nil, "", "v1", "v01", "v1beta", "v1beta1", "v2alpha1", "odd", "example.com/v1", -1, 1 << 20, true, false, []any{}, map[string]any{},
		"Webhook", "None", "Cluster",
	}
	return some[random.IntN(len(some))]
}

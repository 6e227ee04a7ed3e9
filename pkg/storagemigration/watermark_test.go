package storagemigration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// Whatever the order in which objects are done, the mark is the last one before
// the first that is not, and only those begun are kept.
func TestWatermarkInAnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // The same for each run.
		const n = 500
		failed := int64(0)
		if seed%2 == 1 {
			failed = random.Int64N(n) + 1
		}
		var (
			w        watermark
			begun    []int64
			finished = map[int64]bool{}
			window   = random.IntN(60) + 1
		)
		key := func(number int64) types.NamespacedName {
			return types.NamespacedName{Namespace: fmt.Sprintf("n%d", number/100), Name: fmt.Sprintf("o%06d", number)}
		}
		for next := int64(1); next <= n || len(begun) > 0; {
			if next <= n && len(begun) < window {
				if got := w.list(key(next)); got != next {
					t.Fatalf("object %d got number %d", next, got)
				}
				begun = append(begun, next)
				next++
				continue
			}
			i := random.IntN(len(begun))
			number := begun[i]
			begun = slices.Delete(begun, i, i+1)
			w.done(number, number != failed)
			finished[number] = number != failed
			want := int64(0)
			for finished[want+1] {
				want++
			}
			got, _ := w.news()
			if want > 0 && got != key(want) || want == 0 && got != (types.NamespacedName{}) {
				t.Fatalf("seed %d: the mark is %s, want that of %d", seed, got, want)
			}
		}
	}
}

func TestWatermarkStopsWhereTheListIsNotInOrder(t *testing.T) {
	t.Parallel()
	var w watermark
	for _, name := range []string{"a", "c", "b", "d"} {
		w.done(w.list(types.NamespacedName{Name: name}), true)
	}
	if got, _ := w.news(); got.Name != "c" {
		t.Errorf("the mark is %s", got)
	}
}

func TestWatermarkKeepsABoundedNumber(t *testing.T) {
	t.Parallel()
	var w watermark
	stuck := w.list(types.NamespacedName{Name: "0000000"})
	for i := range 3 * maxPending {
		w.done(w.list(types.NamespacedName{Name: fmt.Sprintf("%07d", i+1)}), true)
	}
	if len(w.ring) > maxPending {
		t.Errorf("%d objects are kept", len(w.ring))
	}
	w.done(stuck, true)
	if got, _ := w.news(); got.Name != fmt.Sprintf("%07d", maxPending-1) {
		t.Errorf("the mark is %s", got)
	}
}

// The keys of etcd are compared as bytes, in which "-" comes before "/".
func TestCompareKeys(t *testing.T) {
	t.Parallel()
	inOrder := []types.NamespacedName{
		{Namespace: "a-b", Name: "z"}, {Namespace: "a", Name: "b"}, {Namespace: "a", Name: "c"}, {Namespace: "b", Name: "a"},
	}
	if !slices.IsSortedFunc(inOrder, compareKeys) {
		t.Errorf("not in order: %v", inOrder)
	}
}

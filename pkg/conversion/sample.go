package conversion

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// place is an object and its place in a list.
type place struct {
	types.NamespacedName

	index int64
}

// thinner keeps an evenly spread part of a stream whose length is not known, in
// bounded memory: every stride-th element, and half of those, with twice the
// stride, whenever there are too many. Of n elements it keeps all up to twice the
// limit, and between one and two times the limit of more.
type thinner struct {
	limit  int
	stride int64
	seen   int64
	kept   []place
}

func newThinner(limit int) *thinner { return &thinner{limit: max(limit, 1), stride: 1} }

func (t *thinner) add(p place) {
	if t.seen%t.stride == 0 {
		if len(t.kept) == 2*t.limit {
			half := t.kept[:0]
			for i := 0; i < len(t.kept); i += 2 {
				half = append(half, t.kept[i])
			}
			t.kept = half
			t.stride *= 2
		}
		// The stride may just have doubled.
		if t.seen%t.stride == 0 {
			t.kept = append(t.kept, p)
		}
	}
	t.seen++
}

// evenly returns n of the places, or all, spread over the whole.
func evenly(places []place, n int) []place {
	if n >= len(places) {
		return places
	}
	chosen := make([]place, 0, n)
	for i := range n {
		chosen = append(chosen, places[i*len(places)/n])
	}
	return chosen
}

// sampler chooses objects of a list that comes in the order of namespaces and
// names, and holds on to no more than a few times as many as it chooses.
type sampler struct {
	limit int
	// all and namespaces thin out the objects, and the first object of each
	// namespace: a small namespace, which the stride would pass over, is often
	// another team's, whose objects are written another way.
	all, namespaces *thinner
	total           int64
	namespace       string
}

func newSampler(limit int) *sampler {
	return &sampler{limit: limit, all: newThinner(limit), namespaces: newThinner(max(limit/4, 1))}
}

func (s *sampler) add(key types.NamespacedName) {
	p := place{NamespacedName: key, index: s.total}
	if s.total == 0 || key.Namespace != s.namespace {
		s.namespaces.add(p)
		s.namespace = key.Namespace
	}
	s.all.add(p)
	s.total++
}

// sample returns all objects, or limit of them: at most a quarter to have as many
// namespaces as possible, the rest by their place in the list.
func (s *sampler) sample() []place {
	chosen := slices.Clone(evenly(s.namespaces.kept, s.namespaces.limit))
	taken := make(map[int64]bool, len(chosen))
	for _, p := range chosen {
		taken[p.index] = true
	}
	rest := slices.DeleteFunc(slices.Clone(s.all.kept), func(p place) bool { return taken[p.index] })
	chosen = append(chosen, evenly(rest, s.limit-len(chosen))...)
	slices.SortFunc(chosen, func(a, b place) int { return cmp.Compare(a.index, b.index) })
	return chosen
}

// Choose lists the objects that options select, and filter, if it is not nil, and
// returns limit of them, spread evenly over the list, and over as many namespaces as
// possible, and how many there are. It holds on to a few times as many as it returns.
func Choose(
	ctx context.Context, objects cluster.Objects, options cluster.PageOptions, filter func(namespace, name string) bool, limit int,
) ([]types.NamespacedName, int64, error) {
	sampler := newSampler(limit)
	err := cluster.EachPage(ctx, objects, options, func(page *metav1.PartialObjectMetadataList) error {
		for i := range page.Items {
			key := types.NamespacedName{Namespace: page.Items[i].Namespace, Name: page.Items[i].Name}
			if filter == nil || filter(key.Namespace, key.Name) {
				sampler.add(key)
			}
		}
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("choosing objects: %w", err)
	}
	return sampler.names(), sampler.total, nil
}

// ChooseNamed does so with objects that are known; every takes all of them.
func ChooseNamed(named []cluster.ObjectID, every bool, limit int) ([]types.NamespacedName, int64) {
	sampler := samplerOf(named, every, limit)
	return sampler.names(), sampler.total
}

// samplerOf returns a sampler that has seen objects which are known.
func samplerOf(named []cluster.ObjectID, every bool, limit int) *sampler {
	if every {
		limit = len(named)
	}
	sampler := newSampler(limit)
	for _, object := range named {
		sampler.add(object.NamespacedName)
	}
	return sampler
}

func (s *sampler) names() []types.NamespacedName {
	var chosen []types.NamespacedName
	for _, p := range s.sample() {
		chosen = append(chosen, p.NamespacedName)
	}
	return chosen
}

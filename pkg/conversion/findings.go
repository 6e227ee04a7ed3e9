package conversion

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

type refusal struct {
	index   int64
	failure v1alpha1.ObjectFailure
}

// finding collects the objects with one difference.
type finding struct {
	objects  int64
	examples []place
}

// add counts an object and keeps the first few by their place in the list, in
// whatever order they come.
func (f *finding) add(p place) {
	f.objects++
	at, _ := slices.BinarySearchFunc(f.examples, p, func(a, b place) int { return cmp.Compare(a.index, b.index) })
	if at < maxExamples {
		f.examples = slices.Insert(f.examples, at, p)[:min(len(f.examples)+1, maxExamples)]
	}
}

// differences compares an object after the rewrite with each form that was read
// before. Only the first form can tell what appears: the others may lack fields
// that their version does not know.
func (r *rehearsal) differences(before []*unstructured.Unstructured, after *unstructured.Unstructured) []difference {
	found := compareObjects(before[0].Object, after.Object, r.options.Schema)
	for _, form := range before[1:] {
		for _, d := range losses(compareObjects(form.Object, after.Object, r.options.Schema)) {
			if !slices.Contains(found, d) {
				found = append(found, d)
			}
		}
	}
	return found
}

// record adds what came of an object to the result.
func (r *rehearsal) record(p place, result outcome, sample int64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	switch {
	case result.gone:
		r.total--
	case result.busy:
	default:
		r.sampled++
	}
	for _, version := range result.through {
		r.taken[version]++
	}
	if result.failure != nil {
		r.refused++
		at, _ := slices.BinarySearchFunc(r.refusals, p.index, func(a refusal, index int64) int { return cmp.Compare(a.index, index) })
		if at < maxRefused {
			r.refusals = slices.Insert(r.refusals, at, refusal{index: p.index, failure: *result.failure})[:min(len(r.refusals)+1, maxRefused)]
		}
	}
	other := map[difference]bool{}
	for _, d := range result.differences {
		if r.findings[d] == nil && len(r.findings) >= maxPaths {
			d.path = OtherPaths
			if other[d] {
				continue // The object counts once.
			}
			other[d] = true
		}
		if r.findings[d] == nil {
			r.findings[d] = &finding{}
		}
		r.findings[d].add(p)
	}
	r.done++
	if r.options.Progress != nil {
		r.options.Progress(r.done, sample)
	}
}

// report returns the result, in the order of the list and of the paths.
func (r *rehearsal) report() *v1alpha1.Rehearsal {
	report := &v1alpha1.Rehearsal{
		Sampled:      r.sampled,
		Total:        r.total,
		Complete:     r.sampled == r.total,
		RefusedCount: r.refused,
		Detours:      r.through(),
	}
	for _, refused := range r.refusals {
		report.Refused = append(report.Refused, refused.failure)
	}
	for d, f := range r.findings {
		field := v1alpha1.FieldDifference{Path: d.path, Change: d.change, Objects: f.objects}
		for _, example := range f.examples {
			field.Examples = append(field.Examples, display(example))
		}
		if d.change == v1alpha1.ChangeAppeared {
			report.Appeared = append(report.Appeared, field)
		} else {
			report.Lost = append(report.Lost, field)
		}
	}
	byPath := func(a, b v1alpha1.FieldDifference) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Change, b.Change))
	}
	slices.SortFunc(report.Lost, byPath)
	slices.SortFunc(report.Appeared, byPath)
	return report
}

func display(p place) string {
	if p.Namespace == "" {
		return p.Name
	}
	return p.String()
}

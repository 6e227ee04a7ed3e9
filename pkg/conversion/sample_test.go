package conversion

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

func TestSample(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		objects, limit int
		namespaces     func(i int) int // Ascending.
		want           int
		wantNamespaces int
	}{
		{objects: 0, limit: 1000, want: 0},
		{objects: 1, limit: 1000, want: 1, wantNamespaces: 1},
		{objects: 999, limit: 1000, want: 999, wantNamespaces: 1},
		{objects: 1000, limit: 1000, want: 1000, wantNamespaces: 1},
		{objects: 1001, limit: 1000, want: 1000, wantNamespaces: 1},
		{objects: 1999, limit: 1000, want: 1000, wantNamespaces: 1},
		{objects: 2001, limit: 1000, want: 1000, wantNamespaces: 1},
		{objects: 123457, limit: 1000, want: 1000, wantNamespaces: 1},
		// One namespace has nearly all of the objects, 200 have one each.
		{objects: 100200, limit: 1000, want: 1000, namespaces: func(i int) int { return max(0, i-100000) }, wantNamespaces: 200},
		// More namespaces than can be looked at.
		{objects: 50000, limit: 1000, want: 1000, namespaces: func(i int) int { return i / 5 }, wantNamespaces: 900},
		{objects: 10, limit: 1, want: 1, namespaces: func(i int) int { return i }, wantNamespaces: 1},
		{objects: 10, limit: 3, want: 3, namespaces: func(i int) int { return i / 2 }, wantNamespaces: 3},
	} {
		t.Run(fmt.Sprintf("%d of %d", test.limit, test.objects), func(t *testing.T) {
			t.Parallel()
			s := newSampler(test.limit)
			for i := range test.objects {
				namespace := 0
				if test.namespaces != nil {
					namespace = test.namespaces(i)
				}
				s.add(types.NamespacedName{Namespace: fmt.Sprintf("namespace-%06d", namespace), Name: fmt.Sprint(i)})
				if held := len(s.all.kept) + len(s.namespaces.kept); held > 4*test.limit {
					t.Fatalf("%d objects are held after %d", held, i)
				}
			}
			sample := s.sample()
			if len(sample) != test.want || s.total != int64(test.objects) {
				t.Fatalf("%d objects of %d were chosen, want %d of %d", len(sample), s.total, test.want, test.objects)
			}
			namespaces := map[string]bool{}
			for i, p := range sample {
				namespaces[p.Namespace] = true
				if p.Name != fmt.Sprint(p.index) {
					t.Fatalf("object %s has the place %d", p.Name, p.index)
				}
				if i > 0 && p.index <= sample[i-1].index {
					t.Fatalf("place %d comes after %d", p.index, sample[i-1].index)
				}
				// Where the next one is no further away than four times the average,
				// no part of the list is left out.
				next := int64(test.objects)
				if i+1 < len(sample) {
					next = sample[i+1].index
				}
				if gap := next - p.index; test.limit >= 100 && gap > int64(4*test.objects/test.limit)+1 {
					t.Errorf("nothing was chosen between %d and %d", p.index, next)
				}
			}
			if len(namespaces) < test.wantNamespaces {
				t.Errorf("%d namespaces were chosen, want at least %d", len(namespaces), test.wantNamespaces)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, err := cluster.New(&rest.Config{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if options := newRehearsal(c, RehearseOptions{}).options; options.Sample != 1000 || options.Concurrency != 16 {
		t.Errorf("%d objects are taken, %d at a time; want 1000 and 16", options.Sample, options.Concurrency)
	}
}

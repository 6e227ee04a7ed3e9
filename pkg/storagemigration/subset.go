package storagemigration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// sampleSize is about how many objects a sample has.
const sampleSize = 500

// wrapper is objects around others.
type wrapper interface{ inner() *cluster.Objects }

// innermost returns where the objects are that wrappers are around, in whatever order.
func innermost(objects *cluster.Objects) *cluster.Objects {
	for {
		around, ok := (*objects).(wrapper)
		if !ok {
			return objects
		}
		objects = around.inner()
	}
}

// has tells whether objects are a T, or a T is among the wrappers around them.
func has[T cluster.Objects](objects cluster.Objects) bool {
	for {
		if _, ok := objects.(T); ok {
			return true
		}
		around, ok := objects.(wrapper)
		if !ok {
			return false
		}
		objects = *around.inner()
	}
}

// named are the objects of a resource that have certain names, and no others. Its list
// has nothing but the names: the pass reads each object on its own, so that one that
// cannot be read keeps none of the others from being sent. A pass over them is no proof
// of anything, whatever it calls itself.
type named struct {
	cluster.Objects

	names []cluster.ObjectID
}

// Named returns the named ones of some objects. Those that are not there any more, or
// not the same ones, count as deleted: whatever has their name now was created later,
// and persisted at the storage version.
func Named(objects cluster.Objects, names []cluster.ObjectID) cluster.Objects {
	return &named{Objects: objects, names: names}
}

func (n *named) inner() *cluster.Objects { return &n.Objects }

// ListMetadata returns the names of the next ones, without a request: the token is the
// number of those before.
func (n *named) ListMetadata(_ context.Context, options cluster.PageOptions) (*metav1.PartialObjectMetadataList, error) {
	start := 0
	if options.Continue != "" {
		var err error
		if start, err = strconv.Atoi(options.Continue); err != nil || start < 0 || start > len(n.names) {
			return nil, fmt.Errorf("going on with the named objects: %q is no token of this list", options.Continue)
		}
	}
	end := min(len(n.names), start+int(max(options.Limit, 1)))
	page := &metav1.PartialObjectMetadataList{}
	for _, name := range n.names[start:end] {
		page.Items = append(page.Items, metav1.PartialObjectMetadata{
			ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, UID: name.UID},
		})
	}
	if remaining := int64(len(n.names) - end); remaining > 0 {
		page.Continue, page.RemainingItemCount = strconv.Itoa(end), &remaining
	}
	return page, nil
}

// read reads an object of which no more than the name is known. It returns nil where
// it has come to its outcome by that, and whether that is a good one.
func (p *pass) read(run, requests context.Context, name *metav1.PartialObjectMetadata) (object *metav1.PartialObjectMetadata, well bool) {
	err := p.send(run, requests, unweighed, func(ctx context.Context) (err error) {
		object, err = p.objects.GetMetadata(ctx, keyOf(name))
		return err
	})
	switch {
	case err != nil:
		return nil, p.unwritten(name, err)
	case name.UID != "" && object.UID != name.UID:
		p.count(name, OutcomeDeleted, nil)
		return nil, true
	case p.slim:
		return slim(object), false
	}
	return object, false
}

// sampled are every n-th of the objects of a resource, about sampleSize in all,
// from all pages, so that no namespace of that many objects is left out. A pass
// over them is no proof of anything, whatever it calls itself.
type sampled struct {
	cluster.Objects

	mu     sync.Mutex
	stride int64
	// seen is the number of objects before the page with the token, of which a
	// failed request may be sent again.
	token string
	seen  int64
	size  int64
}

func (s *sampled) inner() *cluster.Objects { return &s.Objects }

// Sample returns a sample of some objects.
func Sample(objects cluster.Objects) cluster.Objects { return &sampled{Objects: objects} }

// ListMetadata returns the sample of a page.
func (s *sampled) ListMetadata(ctx context.Context, options cluster.PageOptions) (*metav1.PartialObjectMetadataList, error) {
	page, err := s.Objects.ListMetadata(ctx, options)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	total := int64(len(page.Items))
	if page.RemainingItemCount != nil {
		total += *page.RemainingItemCount
	}
	switch {
	case options.Continue == "":
		s.stride = max(1, (total+sampleSize-1)/sampleSize)
		s.seen, s.size = rand.Int64N(s.stride), 0 //nolint:gosec // Where it begins is no secret.
	case options.Continue != s.token:
		s.seen += s.size
	}
	s.token, s.size = options.Continue, int64(len(page.Items))
	sample := *page
	sample.Items = nil
	for i := range page.Items {
		if (s.seen+int64(i))%s.stride == 0 {
			sample.Items = append(sample.Items, page.Items[i])
		}
	}
	if page.RemainingItemCount != nil {
		remaining := *page.RemainingItemCount / s.stride
		sample.RemainingItemCount = &remaining
	}
	return &sample, nil
}

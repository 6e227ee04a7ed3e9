package storagemigration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

const (
	// sampleSize is about how many objects a sample has.
	sampleSize = 500
	// readAtOnce and namedPage bound the reads of named objects.
	readAtOnce = 8
	namedPage  = 100
)

// Named are the objects of a resource that have certain names, and no others. A
// pass over them is no proof of anything, whatever it calls itself.
type Named struct {
	cluster.Objects

	names []cluster.ObjectID
	gone  atomic.Int64
}

// NewNamed returns the named ones of some objects.
func NewNamed(objects cluster.Objects, names []cluster.ObjectID) *Named {
	return &Named{Objects: objects, names: names}
}

func (n *Named) inner() *cluster.Objects { return &n.Objects }

// Gone returns the number of objects that were not there any more, or not the
// same ones: whatever has their name now was created later, and persisted at the
// storage version.
func (n *Named) Gone() int64 { return n.gone.Load() }

// ListMetadata reads the next of the named objects, one by one: the token is the
// number of those before.
func (n *Named) ListMetadata(ctx context.Context, options cluster.PageOptions) (*metav1.PartialObjectMetadataList, error) {
	start := 0
	if options.Continue != "" {
		var err error
		if start, err = strconv.Atoi(options.Continue); err != nil || start < 0 || start > len(n.names) {
			return nil, fmt.Errorf("going on with the named objects: %q is no token of this list", options.Continue)
		}
	}
	end := min(len(n.names), start+int(min(max(options.Limit, 1), namedPage)))
	found, err := n.read(ctx, n.names[start:end])
	if err != nil {
		return nil, err
	}
	page := &metav1.PartialObjectMetadataList{}
	for _, object := range found {
		if object == nil {
			n.gone.Add(1)
			continue
		}
		page.Items = append(page.Items, *object)
	}
	if remaining := int64(len(n.names) - end); remaining > 0 {
		page.Continue, page.RemainingItemCount = strconv.Itoa(end), &remaining
	}
	return page, nil
}

// read returns the objects, nil for those that are gone.
func (n *Named) read(ctx context.Context, names []cluster.ObjectID) ([]*metav1.PartialObjectMetadata, error) {
	found := make([]*metav1.PartialObjectMetadata, len(names))
	errs := make([]error, len(names))
	tokens := make(chan struct{}, readAtOnce)
	var readers sync.WaitGroup
	for i, name := range names {
		tokens <- struct{}{}
		readers.Go(func() {
			defer func() { <-tokens }()
			object, err := n.GetMetadata(ctx, name.NamespacedName)
			switch {
			case err == nil && (name.UID == "" || object.UID == name.UID):
				found[i] = object
			case err == nil, apierrors.IsNotFound(err) && cluster.AboutObject(err, n.Resource().Resource, name.Name):
			default:
				errs[i] = err
			}
		})
	}
	readers.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return found, nil
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

package storagemigration

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

// WriteTimeout is how long a write may stay in a server's hands: Kubernetes ends
// each after 34 seconds (requestTimeoutUpperBound). A server that took a write on
// before it noticed the new storage version persists it at the old one, even if
// a slow admission webhook keeps it from doing so until long after the barrier.
const WriteTimeout = 35 * time.Second

// VerifyOptions says how to verify.
type VerifyOptions struct {
	PassOptions
	// MaxPasses bounds the number of passes; 0 means 5.
	MaxPasses int
	// NotBefore is the earliest start of the pass that counts as the proof:
	// WriteTimeout after the storage version was changed, see the package
	// comment. Passes before it do their work all the same. Zero means at once.
	NotBefore time.Time
}

// VerifyResult is what came of a verification.
type VerifyResult struct {
	// Evidence has Complete, Passes, Objects and At set; the caller, who read the
	// CRD before and after, adds the rest. Complete says that the last pass saw
	// all objects and found each of them current.
	Evidence v1alpha1.Evidence
	// Clean says the same of the objects of the namespace and selector only.
	Clean bool
	// Reason says why it is not clean.
	Reason string
	// Rewritten is the number of objects that the passes rewrote in total.
	Rewritten int64
	// Last is the result of the last pass.
	Last PassResult
}

// Verify goes over the objects until a pass finds all of them current, which is
// the proof that none is persisted at another version than the storage version.
// It must come after [Barrier]. A result that is not clean is no error; an
// error means that a pass came to no end.
func Verify(ctx context.Context, objects cluster.Objects, options VerifyOptions) (VerifyResult, error) {
	var result VerifyResult
	most := cmp.Or(options.MaxPasses, 5)
	// A proof rests on nothing that somebody wrote down, and covers everything.
	options.SkipThrough, options.Watermark, options.NamespacesFirst = types.NamespacedName{}, nil, nil
	options.Canaries = nil
	for number := 1; ; number++ {
		began := time.Now()
		options.Number = number
		last, err := Pass(ctx, objects, options.PassOptions)
		result.add(number, last)
		if err != nil {
			result.Reason = "the pass came to no end"
			return result, err
		}
		early := began.Before(options.NotBefore)
		wait := time.Duration(0)
		switch {
		case last.Clean() && !early:
			result.Clean, result.Evidence.Complete = true, last.Complete
			return result, nil
		case early:
			// It proves nothing yet, and does not count among the passes.
			most++
			wait = time.Until(options.NotBefore)
		case number >= most, !worthAnotherPass(last):
			result.Reason = whyNotClean(number, last)
			return result, nil
		case Unwritten(last.Counts) > 0:
			wait = time.Second
		}
		if err := sleep(ctx, wait); err != nil {
			return result, fmt.Errorf("waiting for the next pass over %s: %w", objectsName(objects), err)
		}
	}
}

func (r *VerifyResult) add(number int, last PassResult) {
	r.Last = last
	r.Rewritten += last.Counts.Rewritten
	r.Evidence.Passes = number
	r.Evidence.Objects = last.Counts
	r.Evidence.At = metav1.Now()
}

// worthAnotherPass tells whether another pass may find what this one did not: it
// may unless all that is wrong are objects that the server refuses.
func worthAnotherPass(last PassResult) bool {
	if last.Counts.Rewritten > 0 {
		return true
	}
	for _, failure := range last.Failures {
		if failure.Reason == string(cluster.ReasonUnavailable) {
			return true
		}
	}
	return false
}

func whyNotClean(passes int, last PassResult) string {
	if n := Unwritten(last.Counts); n > 0 {
		return fmt.Sprintf("%d of %s could not be rewritten", n, english.Plural(last.Counts.Listed, "object"))
	}
	example := ""
	if len(last.Rewritten) > 0 {
		example = ", such as " + display(last.Rewritten[0]) + ","
	}
	return fmt.Sprintf("%s%s had to be rewritten again in pass %d: a server still persists at another version, or a webhook changes them with every write",
		english.Plural(last.Counts.Rewritten, "object"), example, passes)
}

package storagemigration

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// PassOptions says how to go over the objects. The zero value sends no-op
// patches for all objects of all namespaces.
type PassOptions struct {
	// Namespace and LabelSelector narrow the pass, which is then never complete.
	Namespace     string
	LabelSelector string
	// Filter leaves out the objects that it returns false for, which narrows the
	// pass, too. Nil means none.
	Filter func(object *metav1.PartialObjectMetadata) bool
	// PageSize is the number of objects in a request of the list; 0 means 500.
	PageSize int64
	// Concurrency is the number of requests in flight; 0 lets the pass find out
	// how many the server can do with, from 8 up to MaxConcurrency.
	Concurrency int
	// MaxConcurrency bounds what it finds out; 0 means 128.
	MaxConcurrency int
	// QPS limits the requests per second; 0 means no limit.
	QPS float32
	// MaxBandwidth limits the bytes per second on the wire, sent and received; 0
	// means no limit.
	MaxBandwidth int64
	// RetryFor bounds how long a request is sent again while the server is
	// unavailable or asks to wait; 0 means two minutes.
	RetryFor time.Duration
	// ListFor bounds how long a list that the server cannot produce is tried
	// again; 0 means ten seconds.
	ListFor time.Duration
	// WebhookPatience is how long a pass waits for a conversion webhook that does
	// not answer; 0 means three minutes.
	WebhookPatience time.Duration
	// Notice is told when a pass pauses and goes on. It is called from several
	// goroutines. Nil means nobody.
	Notice func(text string)
	// Grace is how long requests in flight may go on after the context has
	// ended; 0 means five seconds.
	Grace time.Duration
	// DryRun makes the server do everything but store. It then returns the
	// resourceVersion of what is stored in any case, so that each object that is
	// not refused counts as current.
	DryRun       bool
	FieldManager string
	// Patch makes the patch for an object from what the list said of it, or
	// skips the object, which then counts as current. It is called from several
	// goroutines. Nil means NoOpPatch.
	Patch func(object *metav1.PartialObjectMetadata) (body []byte, skip bool, err error)
	// PatchType is the type of the patches; empty means a merge patch.
	PatchType types.PatchType
	// Subresource is what the patches go through: "status", to pass by what is
	// registered for writes of the resource itself, or nothing.
	Subresource string
	// ListThrough are the same objects through other served versions. They are listed
	// there where one object that cannot be converted fails the whole list: then it
	// alone is refused, and not all of them.
	ListThrough []cluster.Objects
	// Detour is another way for objects that the schema refuses; nil for none.
	Detour *Detour
	// NamespacesFirst are gone over before the rest, which is left alone if an
	// object in them fails.
	NamespacesFirst []string
	// SkipThrough is a watermark of an earlier pass over the same objects for the
	// same storage version, after the barrier: the objects up to it count as
	// current without a request. Verify ignores it.
	SkipThrough types.NamespacedName
	// Canaries are the objects that the barrier has rewritten. Where the pass finds
	// them current, they count as rewritten.
	Canaries map[types.NamespacedName]bool
	// Watermark is told now and then, and at the end, up to which object, in the
	// order of the list, all are done. It is not called twice at once. Nil means
	// nobody.
	Watermark func(through types.NamespacedName)
	// Observe is told what came of each object. It is called from several
	// goroutines. Nil means nobody.
	Observe func(object *metav1.PartialObjectMetadata, outcome Outcome)
	// Failed is told of each object that was refused or failed. It is called from
	// several goroutines. Nil means nobody.
	Failed func(failure v1alpha1.ObjectFailure)
	// Progress is called at most ten times a second, never twice at once, and
	// once more at the end. Nil means nobody.
	Progress func(v1alpha1.Progress)
	// Number is the number of the pass in the progress; 0 means 1.
	Number int
	// Examples is the number of rewritten objects that the result names; 0 means 5.
	Examples int
}

func (o PassOptions) withDefaults() PassOptions {
	o.PageSize = cmp.Or(o.PageSize, 500)
	o.MaxConcurrency = cmp.Or(o.MaxConcurrency, defaultMaxConcurrency)
	o.RetryFor = cmp.Or(o.RetryFor, 2*time.Minute)
	o.ListFor = cmp.Or(o.ListFor, 10*time.Second)
	o.WebhookPatience = cmp.Or(o.WebhookPatience, patience)
	o.Grace = cmp.Or(o.Grace, 5*time.Second)
	o.PatchType = cmp.Or(o.PatchType, types.MergePatchType)
	o.Number = cmp.Or(o.Number, 1)
	o.Examples = cmp.Or(o.Examples, 5)
	return o
}

// defaultMaxConcurrency is more than any server was seen to gain from.
const defaultMaxConcurrency = 128

// workers is the number of objects in work, whether on the wire or waiting.
func (o PassOptions) workers() int { return cmp.Or(o.Concurrency, o.MaxConcurrency) }

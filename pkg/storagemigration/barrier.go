package storagemigration

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// BarrierOptions says what to wait for.
type BarrierOptions struct {
	// Resource is the resource at a version that is served. Without a version,
	// nothing can be asked, and the barrier only waits.
	Resource schema.GroupVersionResource
	// ExpectedHash is what discovery says once a server has switched:
	// [StorageVersionHash] of the storage version. Leave it empty when the storage
	// version is not served: the server then gives no hash.
	ExpectedHash string
	// Matches is the number of answers in a row that must agree; 0 means 20.
	Matches int
	// Settle is how long they must have agreed at least; 0 means 2 seconds.
	Settle time.Duration
	// SettleBlind is how long to wait when there is no hash to look at; 0 means
	// 10 seconds.
	SettleBlind time.Duration
	// Timeout bounds the barrier; 0 means a minute.
	Timeout time.Duration
	// Canaries is the number of objects that are patched to see whether all
	// servers persist them in the same form; 0 means 3, a negative number none.
	Canaries     int
	FieldManager string
	// Rewritten is told of each canary that was persisted in another form before.
	// Nil means nobody.
	Rewritten func(key types.NamespacedName)
	// Namespace, LabelSelector and Filter narrow the canaries as they narrow the
	// migration: whoever migrates a part wants nothing else to be written.
	Namespace     string
	LabelSelector string
	Filter        func(object *metav1.PartialObjectMetadata) bool
	// Guard is asked before a canary is written. Nil lets all of them be.
	Guard Guard
	// Subresource is what the canaries are patched through: "status" or nothing.
	Subresource string
}

func (o BarrierOptions) withDefaults() BarrierOptions {
	o.Matches = cmp.Or(o.Matches, 20)
	o.Settle = cmp.Or(o.Settle, 2*time.Second)
	o.SettleBlind = cmp.Or(o.SettleBlind, 10*time.Second)
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	o.Canaries = cmp.Or(o.Canaries, 3)
	return o
}

// StorageVersionHash is what discovery says of a resource whose storage version
// this is, as long as that version is served (fact 3).
func StorageVersionHash(group, version, kind string) string {
	sum := sha256.Sum256([]byte(group + "/" + version + "/" + kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// Barrier waits until every API server is seen to persist at the storage version
// that the CRD has now. A server reads CRDs from a watch and switches on its own,
// a fraction of a second after the CRD was changed or later (fact 3).
//
// It has no way to count the servers. It asks for the storage version hash over
// new connections, each of which a load balancer may lead to another server, and
// wants many right answers in a row; it waits for a while longer, because the
// part of a server that writes may switch after the part that answers discovery;
// and it patches a few objects over new connections until none of the servers
// finds anything to rewrite any more. Behind a balancer that hides a server from
// all of these connections, it can be fooled.
func Barrier(ctx context.Context, c cluster.Interface, options BarrierOptions) error {
	options = options.withDefaults()
	ctx, cancel := context.WithTimeoutCause(ctx, options.Timeout, barrierTimeoutError{after: options.Timeout})
	defer cancel()
	b := &barrier{cluster: c, options: options, last: "nothing in the way, but not for long enough"}
	err := b.wait(ctx)
	if err == nil {
		return nil
	}
	timeout := barrierTimeoutError{}
	if errors.As(context.Cause(ctx), &timeout) && ctx.Err() != nil {
		return fmt.Errorf("waiting until all API servers persist %s at the new storage version: %w; last seen: %s",
			options.Resource.GroupResource(), timeout, b.last)
	}
	return fmt.Errorf("waiting until all API servers persist %s at the new storage version: %w", options.Resource.GroupResource(), err)
}

// barrierTimeoutError is the end of the time that a barrier has.
type barrierTimeoutError struct{ after time.Duration }

func (e barrierTimeoutError) Error() string { return fmt.Sprintf("not so after %s", e.after) }
func (e barrierTimeoutError) Unwrap() error { return context.DeadlineExceeded }

type barrier struct {
	cluster cluster.Interface
	options BarrierOptions
	// last is what was last seen to be in the way, for the error.
	last string
}

func (b *barrier) wait(ctx context.Context) error {
	seen, err := b.waitForHash(ctx)
	if err != nil {
		return err
	}
	if !seen {
		b.last = "servers that do not tell their storage version"
		if err := sleep(ctx, b.options.SettleBlind); err != nil {
			return err
		}
	}
	if b.options.Resource.Version == "" || b.options.Canaries < 0 {
		return nil
	}
	stable := canaryStable
	if !seen {
		stable = canaryStableBlind
	}
	return b.waitForCanaries(ctx, stable)
}

// waitForHash waits for the hash. It returns false where there is none to see.
func (b *barrier) waitForHash(ctx context.Context) (seen bool, err error) {
	if b.options.ExpectedHash == "" || b.options.Resource.Version == "" {
		return false, nil
	}
	var (
		interval = max(b.options.Settle/time.Duration(b.options.Matches), 10*time.Millisecond)
		first    time.Time // Of the answers in a row.
		matches  int
		nothing  int
	)
	for {
		// A new Discovery, which remembers nothing.
		hash, err := b.cluster.Discovery().StorageVersionHash(ctx, b.options.Resource)
		switch {
		case ctx.Err() != nil:
			return seen, ended(ctx) // What was seen before explains it better.
		case err != nil:
			matches = 0
			b.last = cluster.Explain(err).Message
		case hash == b.options.ExpectedHash:
			if matches++; matches == 1 {
				first = time.Now()
			}
			seen = true
		case hash == "" && !seen:
			matches = 0
			// A server that does not serve the old storage version says nothing
			// until it has switched; one that says nothing for as long as it may
			// take to settle never will.
			if nothing++; nothing >= b.options.Matches {
				return false, nil
			}
		default:
			matches = 0
			b.last = "a server that has not switched"
		}
		if matches >= b.options.Matches && time.Since(first) >= b.options.Settle {
			return true, nil
		}
		if err := sleep(ctx, interval); err != nil {
			return seen, err
		}
	}
}

func display(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}

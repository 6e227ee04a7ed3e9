package cmd

import (
	"context"
	"fmt"
	"sync"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/etcd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// etcdEvidence is an etcd that is asked what it holds of CRDs that come from
// elsewhere. A nil one knows nothing. Calls may run at the same time.
type etcdEvidence struct {
	lock        sync.Mutex
	source      etcd.Source
	definitions etcd.Definitions
	// all are the counts of a snapshot, by CRD: it is read as a whole, once.
	all map[string]v1alpha1.StoredCRD
}

// evidence opens the etcd that the flags name; it is nil where they name none.
func (e *etcdFlags) evidence(ctx context.Context) (*etcdEvidence, error) {
	if !e.given() {
		return nil, nil // A nil one is of use, see its methods.
	}
	source, err := e.open(ctx)
	if err != nil {
		return nil, err
	}
	evidence := &etcdEvidence{source: source}
	if evidence.definitions, err = etcd.ReadDefinitions(ctx, source); err != nil {
		evidence.close()
		return nil, err
	}
	return evidence, nil
}

func (e *etcdEvidence) close() {
	if e != nil {
		_ = e.source.Close() // It was only read.
	}
}

// of returns what etcd holds of a CRD, or why that is not known; nil if no etcd is
// read.
func (e *etcdEvidence) of(ctx context.Context, one crd.CRD) *lifecycle.Stored {
	if e == nil {
		return nil
	}
	e.lock.Lock()
	defer e.lock.Unlock()
	if !one.Origin.Live() && !e.definitions.Has(one.Name) {
		return nil // Nothing can be stored of a CRD that was never applied.
	}
	stored := &lifecycle.Stored{Source: e.name(), Snapshot: e.source.Describe().Snapshot != ""}
	counted, err := e.count(ctx, one)
	if err != nil {
		stored.Error = err.Error()
		return stored
	}
	stored.Counts = counted.Stored
	return stored
}

// name says what is read.
func (e *etcdEvidence) name() string {
	if from := e.source.Describe(); from.Snapshot != "" {
		return fmt.Sprintf("the etcd snapshot %s (revision %d)", from.Snapshot, from.Revision)
	}
	return "etcd"
}

// count counts the objects of a CRD, which must be the one that is in etcd: a
// snapshot of another cluster proves nothing about this one.
func (e *etcdEvidence) count(ctx context.Context, one crd.CRD) (v1alpha1.StoredCRD, error) {
	known := e.definitions.Get(one.Name)
	switch {
	case known == nil:
		return v1alpha1.StoredCRD{}, fmt.Errorf("it has no CRD %s that can be read", one.Name)
	case one.Origin.Live() && known.UID != one.UID:
		return v1alpha1.StoredCRD{}, fmt.Errorf("its CRD %s is another one, with the UID %s and not %s: it is of another cluster, or of before the CRD was created again",
			one.Name, known.UID, one.UID)
	case e.source.Describe().Snapshot == "":
		items, err := etcd.Count(ctx, e.source, []etcd.Target{etcd.TargetOf(known)}, etcd.CountOptions{})
		if err != nil {
			return v1alpha1.StoredCRD{}, err
		}
		return items[0], nil
	case e.all == nil:
		if err := e.countAll(ctx); err != nil {
			return v1alpha1.StoredCRD{}, err
		}
	}
	return e.all[one.Name], nil
}

func (e *etcdEvidence) countAll(ctx context.Context) error {
	var targets []etcd.Target
	for _, definition := range e.definitions.Items {
		targets = append(targets, etcd.TargetOf(definition))
	}
	items, err := etcd.Count(ctx, e.source, targets, etcd.CountOptions{})
	if err != nil {
		return err
	}
	e.all = make(map[string]v1alpha1.StoredCRD, len(items))
	for _, item := range items {
		e.all[item.Name] = item
	}
	return nil
}

// storedNow returns the function that reads a running etcd again; nil without one:
// a snapshot does not change.
func (c *change) storedNow(name string) func(context.Context) (*lifecycle.Stored, error) {
	if c.stored == nil || c.flags.etcd.snapshot != "" {
		return nil
	}
	return func(ctx context.Context) (*lifecycle.Stored, error) {
		found, err := c.cluster.CRDs().Get(ctx, name)
		if err != nil {
			return nil, err
		}
		stored := c.stored.of(ctx, crd.Live(found))
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("counting the objects of %s: %w", name, err)
		}
		return stored, nil
	}
}

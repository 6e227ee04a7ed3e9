package executor

import (
	"context"
	"fmt"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/english"
)

// etcdGiven refuses a plan that etcd is to be read for where there is none.
func (r *run) etcdGiven() error {
	if endpoints := r.plan.Intent.EtcdEndpoints; len(endpoints) > 0 && r.Stored == nil {
		return refusef("the plan has etcd read before it trims or removes: pass --etcd-endpoints %s, with the files for TLS", strings.Join(endpoints, ","))
	}
	return nil
}

// etcdAgrees reads etcd, where there is one to read, and refuses to go on if an object
// is persisted at another version than the storage version, or if that cannot be
// told. It comes on top of the verify pass and replaces none (rule 3).
func (r *run) etcdAgrees(ctx context.Context) error {
	if r.Stored == nil {
		return nil // The plan needs none: see etcdGiven.
	}
	stored, err := r.Stored(ctx)
	if err != nil {
		return fmt.Errorf("reading etcd: %w", err)
	}
	if stored.Error != "" {
		return refusef("what etcd holds could not be read: %s", stored.Error)
	}
	for _, count := range stored.Counts {
		switch {
		case count.Objects == 0 || count.Version == r.expected.StorageVersion:
		case count.Version != "":
			return refusef("%s, although the verify pass found none; kubectl crdver stored %s --at %s lists what is left",
				stored.Holds(count), r.expected.Name, count.Version)
		case count.Undecodable:
			return refusef("%s holds %s that cannot be decoded; kubectl crdver stored %s --at undecodable shows which",
				stored.Source, english.Plural(count.Objects, "object"), r.expected.Name)
		default:
			r.warn("%s holds encrypted objects (%[3]s), %[2]d: of them the verify pass alone tells the version",
				stored.Source, count.Objects, count.Encrypted)
		}
	}
	return nil
}

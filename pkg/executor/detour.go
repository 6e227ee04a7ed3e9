package executor

import (
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion"
	"github.com/crdver/kubectl-crdver/pkg/storagemigration"
)

// listThrough returns the objects through the served versions other than that of
// the step.
func (r *run) listThrough() []cluster.Objects {
	var through []cluster.Objects
	for _, version := range r.served {
		if version != r.step.Endpoint {
			through = append(through, r.Cluster.Objects(r.resource(version)))
		}
	}
	return through
}

// detour returns the other way of the intent for objects that the schema refuses;
// nil for none. Each of them is looked at as the rehearsal did: the one of the plan
// took a sample, and is over.
func (r *run) detour() *storagemigration.Detour {
	through := r.plan.Intent.RefusedThrough
	if through == "" || r.rehearsal == nil {
		return nil
	}
	return &storagemigration.Detour{
		Objects: r.Cluster.Objects(r.resource(through)),
		Takes:   conversion.NewDetour(r.Cluster, *r.rehearsal, through).Takes,
	}
}

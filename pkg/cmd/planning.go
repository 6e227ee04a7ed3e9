package cmd

import (
	"fmt"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/plan"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

// noneSelected refuses a label selector that matches no object of any CRD: it is
// misspelt, and a canary that goes over nothing says nothing. That a namespace or
// a shard is empty may well be.
func noneSelected(plans []v1alpha1.Plan) error {
	for _, p := range plans {
		if p.Intent.Selector == "" || !plan.NoneSelected(p) {
			return nil
		}
	}
	if len(plans) == 0 {
		return nil
	}
	names := make([]string, 0, len(plans))
	for _, p := range plans {
		names = append(names, p.Target.CRD.Name)
	}
	return fmt.Errorf("there are no objects %s in %s: nothing would be migrated", plan.Selection(plans[0].Intent), strings.Join(names, ", "))
}

// planning shows how far the rehearsal is that a plan waits for, as the steps of
// the plan do, until end is called.
func (c *change) planning(name string) (show func(done, total int64), end func()) {
	progress := printers.NewProgress(c.ErrOut, printers.ProgressMode(c.flags.progress))
	stop := c.answerStatus(progress)
	return progress.Planning(name, now), func() {
		stop()
		progress.End()
	}
}

package executor

import (
	"context"
	"sync"
	"time"
)

// steadyInterval is how often the CRD is looked at while objects are rewritten.
const steadyInterval = 2 * time.Second

// steady returns a context that ends when somebody changes the spec of the CRD: what
// was rehearsed and looked at was another one, and another schema may drop fields of
// each object that is written yet (rule 5). That a look fails ends nothing: the CRD is
// looked at again when the objects are done.
func (r *run) steady(ctx context.Context) (watched context.Context, end func()) {
	watched, stop := context.WithCancelCause(ctx)
	began := *r.baseline
	var looking sync.WaitGroup
	looking.Go(func() {
		ticker := time.NewTicker(steadyInterval)
		defer ticker.Stop()
		for {
			select {
			case <-watched.Done():
				return
			case <-ticker.C:
			}
			found, err := r.Cluster.CRDs().Get(watched, began.Name)
			if err == nil && (string(found.UID) != began.UID || found.Generation != began.Generation) {
				stop(refusef("somebody changed the CRD while objects were rewritten (generation %d, it was %d): nothing more is rewritten; run again to plan from here",
					found.Generation, began.Generation))
				return
			}
		}
	})
	return watched, func() {
		stop(nil)
		looking.Wait()
	}
}

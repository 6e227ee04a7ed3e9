package storagemigration

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/managedfields"
)

// compareManagers counts an object whose rewriting took managers away from it. The
// first one is told at once: there is time to stop.
func (p *pass) compareManagers(before, after *metav1.PartialObjectMetadata) {
	if !p.noOp {
		return
	}
	lost := managedfields.Lost(before.ManagedFields, after.ManagedFields)
	if len(lost) == 0 {
		return
	}
	p.mu.Lock()
	p.result.Counts.ManagersLost++
	first := p.result.Counts.ManagersLost == 1
	p.mu.Unlock()
	if first {
		quoted := make([]string, len(lost))
		for i, manager := range lost {
			quoted[i] = fmt.Sprintf("%q", manager)
		}
		p.notice("writing %s took the entries of %s out of its metadata.managedFields: a webhook does that, or an API server that cannot convert them; "+
			"what these managers apply next leaves behind what they no longer say", display(keyOf(before)), strings.Join(quoted, ", "))
	}
}

package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// Stale tells why a plan no longer fits the cluster and the CRD as they are
// now, or returns "". The resourceVersion alone does not make a plan stale: a
// condition or a label may have changed.
func Stale(planned, now v1alpha1.Target) string {
	switch p, n := planned.Cluster, now.Cluster; {
	case p.KubeSystemUID != "" && n.KubeSystemUID != "" && p.KubeSystemUID != n.KubeSystemUID:
		return fmt.Sprintf("the plan is for another cluster (kube-system UID %s, not %s)", p.KubeSystemUID, n.KubeSystemUID)
	case (p.KubeSystemUID == "" || n.KubeSystemUID == "") && p.Server != n.Server:
		return fmt.Sprintf("the plan is for another cluster (%s, not %s)", p.Server, n.Server)
	}
	p, n := planned.CRD, now.CRD
	switch {
	case p.Name != n.Name:
		return fmt.Sprintf("the plan is for another CRD (%s, not %s)", p.Name, n.Name)
	case p.UID != n.UID:
		return "the CRD was deleted and created again"
	case p.Generation != n.Generation:
		return fmt.Sprintf("the CRD was changed (generation %d -> %d)", p.Generation, n.Generation)
	case p.StorageVersion != n.StorageVersion:
		return fmt.Sprintf("the storage version was changed (%s -> %s)", p.StorageVersion, n.StorageVersion)
	case !slices.Equal(p.StoredVersions, n.StoredVersions):
		return fmt.Sprintf("status.storedVersions was changed (%s -> %s)", bracket(p.StoredVersions), bracket(n.StoredVersions))
	}
	return ""
}

// Differs tells how the steps that are left of a plan differ from those of a
// plan that was made anew after a conflict, or returns "". Only what is done
// counts: what was found out about it may have changed.
func Differs(left, again []v1alpha1.Step) string {
	for i, step := range left {
		if i >= len(again) {
			return fmt.Sprintf("the step %s is no longer needed", step.ID)
		}
		other := again[i]
		switch {
		case step.Action != other.Action || step.Version != other.Version:
			return fmt.Sprintf("the next step would be %s, not %s", other.ID, step.ID)
		case !samePatch(step.Patch, other.Patch):
			return fmt.Sprintf("the patch of the step %s would be another", step.ID)
		}
	}
	if len(again) > len(left) {
		return fmt.Sprintf("the step %s would be needed too", again[len(left)].ID)
	}
	return ""
}

func samePatch(a, b *v1alpha1.Patch) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.Subresource != b.Subresource || len(a.Body) != len(b.Body) {
		return false
	}
	for i := range a.Body {
		x, y := a.Body[i], b.Body[i]
		if x.Op != y.Op || x.Path != y.Path || (x.Value == nil) != (y.Value == nil) {
			return false
		}
		if x.Value != nil && !sameJSON(x.Value.Raw, y.Value.Raw) {
			return false
		}
	}
	return true
}

// sameJSON compares values: a plan that went through a file has the same ones
// with other spaces, escapes and orders of keys.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return bytes.Equal(a, b)
	}
	return reflect.DeepEqual(x, y)
}

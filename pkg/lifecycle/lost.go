package lifecycle

import (
	"fmt"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// MayReadObjects tells why the objects cannot be read, where that was seen: some
// are persisted at a version that the CRD does not have (facts 1, 14 and 15).
func (s State) MayReadObjects() []v1alpha1.Blocker {
	lost := s.Observations.LostVersion
	if lost == "" {
		return nil
	}
	return []v1alpha1.Blocker{{ID: BlockLostVersion, Message: Lost(s.CRD, lost), Resolve: Rescue(s.CRD, lost)}}
}

// Lost says what is the matter with objects that are persisted at a version
// which the CRD does not have. They look corrupt and are not.
func Lost(c crd.CRD, version string) string {
	return fmt.Sprintf("objects are stored at %s, which spec.versions of %s no longer has: they are intact, but cannot be read",
		version, c.Name)
}

// Rescue says how such objects can be read again. With None, what the schema of
// the added version does not have is dropped when they are read: its own
// manifest is better than a copy of another version.
func Rescue(c crd.CRD, version string) string {
	restore := fmt.Sprintf("kubectl crdver restore %s %s", version, c.Name)
	return fmt.Sprintf("%[1]s -f MANIFEST, with a manifest that still has %[2]s (or, if the schemas are the same, %[1]s --from %[3]s); "+
		"then kubectl crdver migrate %[4]s", restore, version, c.StorageVersion(), c.Name)
}

package plan

import (
	"fmt"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// restore plans: VERSION served again, or, where it was removed, back in
// spec.versions unserved, which makes objects readable that are still stored
// at it (fact 1).
func (b *builder) restore() error {
	version := b.intent.Version
	add := b.intent.Definition != nil || b.intent.From != ""
	switch v := b.state.Version(version); {
	case v != nil && !add:
		b.serve(version)
		marks, unreadable := b.state.MarksOf(version)
		b.clear(version, marks, v1alpha1.ActionServe)
		b.clearUnreadable(unreadable)
		if v.Deprecated && len(marks) > 0 {
			b.warn("%s stays deprecated; to take that back: kubectl crdver deprecate %s --undo %s", version, version, b.state.CRD.Name)
		}
		return nil
	case v != nil:
		// It was asked for to be there, not to be served: that is another command.
		if !v.Served {
			b.warn("%s is in spec.versions, unserved; to serve it: %s", version, b.command("restore", version))
		}
		return nil
	case !add:
		return fmt.Errorf("%w; to add a removed version again, name its manifest with -f, or a version to copy with --from",
			b.unknownVersion(version))
	}
	if bogus := b.state.BogusStored(); len(bogus) > 0 {
		b.warn("status.storedVersions lists %s, which spec.versions does not have", join(bogus))
	}
	b.warn("%s is added unserved, which makes objects readable that are stored at it; to serve it too: %s", version, b.command("restore", version))
	return b.addVersion()
}

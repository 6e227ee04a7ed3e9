package plan

import (
	"fmt"
	"slices"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
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
		b.restoreRescued(version)
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
		b.restoreRescued(version)
		return nil
	case !add:
		return fmt.Errorf("%w; to add a removed version again, name its manifest with -f, or a version to copy with --from",
			b.unknownVersion(version))
	}
	if bogus := b.state.BogusStored(); len(bogus) > 0 {
		b.warn("status.storedVersions lists %s, which spec.versions does not have", join(bogus))
	}
	b.warn("%s is added unserved, which makes objects readable that are stored at it; to serve it too: %s", version, b.command("restore", version))
	b.copyWarning(version)
	return b.addVersion()
}

// copyWarning tells of fields that nobody can see: the server reads objects with the
// schema of the version that they are stored at, and a copy is not the one it had.
func (b *builder) copyWarning(version string) {
	from := b.intent.From
	if b.intent.Definition != nil || from == "" || lifecycle.KeepsEveryField(b.state.CRD, from) {
		return
	}
	o := b.state.Observations
	stored := slices.Contains(b.state.Stored, version) || slices.Contains(b.state.Lost(), version)
	if !stored && (b.state.Trust.Trusted || o.Objects != nil && *o.Objects == 0) {
		return
	}
	b.warn("objects may be stored at %s, and a copy of %s is not the schema it had: fields that it lacks are invisible, and the next write of an object drops them for good; "+
		"give it its own schema (-f MANIFEST), or keep every field and see what would be lost: kubectl crdver rescue %s", version, from, b.state.CRD.Name)
}

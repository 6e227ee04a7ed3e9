package plan

import "fmt"

// restore plans: VERSION served again, or, where it was removed, back in
// spec.versions unserved, which makes objects readable that are still stored
// at it (fact 1).
func (b *builder) restore() error {
	version := b.intent.Version
	if b.state.Version(version) != nil {
		b.serve(version)
		return nil
	}
	if b.intent.Definition == nil && b.intent.From == "" {
		return fmt.Errorf("%w; to add a removed version again, name its manifest with -f, or a version to copy with --from",
			b.unknownVersion(version))
	}
	if bogus := b.state.BogusStored(); len(bogus) > 0 {
		b.warn("status.storedVersions lists %s, which spec.versions does not have", join(bogus))
	}
	return b.addVersion()
}

package lifecycle

import (
	"fmt"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/apiversion"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

// Identifiers of the blockers that the legal moves give.
const (
	BlockStorageVersion    = "storage-version"
	BlockOnlyServed        = "only-served-version"
	BlockNotServed         = "not-served"
	BlockStillServed       = "still-served"
	BlockStored            = "stored"
	BlockNoneServed        = "none-served"
	BlockOwnerReferences   = "owner-references"
	BlockUnknownReferences = "owner-references-unknown"
	BlockMigrationRunning  = "in-tree-migration-running"
	BlockLostVersion       = "stored-version-missing"
	BlockBrownout          = "brownout"
)

// command returns a command of this tool for the CRD, ready to paste.
func (s State) command(words ...string) string {
	return "kubectl crdver " + strings.Join(append(words, s.CRD.Name), " ")
}

// MaySetStorage tells why a version cannot become the storage version.
func (s State) MaySetStorage(version string) []v1alpha1.Blocker {
	v := s.Version(version)
	if v.Storage || v.Served {
		return nil
	}
	return []v1alpha1.Blocker{{
		ID:      BlockNotServed,
		Message: fmt.Sprintf("%s is not served: objects could not be read back as they are stored", version),
		Resolve: s.command("restore", version),
	}}
}

// MayUnserve tells why a version cannot be unserved.
func (s State) MayUnserve(version string, allowOwnerReferences bool) []v1alpha1.Blocker {
	v := s.Version(version)
	if !v.Served {
		return nil
	}
	blockers := s.mayLeave(version)
	blockers = append(blockers, s.mayOrphan(version, allowOwnerReferences)...)
	return blockers
}

// mayLeave tells why a version cannot leave the storage or the service.
func (s State) mayLeave(version string) []v1alpha1.Blocker {
	if v := s.Version(version); v.Storage {
		blocker := v1alpha1.Blocker{
			ID:      BlockStorageVersion,
			Message: fmt.Sprintf("%s is the storage version: objects are persisted at it", version),
		}
		if to := s.promotable(version); to != "" {
			blocker.Resolve = s.command("promote", to)
		} else {
			blocker.Resolve = "add another version to spec.versions, then kubectl crdver promote it"
		}
		return []v1alpha1.Blocker{blocker}
	}
	if served := s.Served(); len(served) == 1 && served[0] == version {
		blocker := v1alpha1.Blocker{
			ID:      BlockOnlyServed,
			Message: fmt.Sprintf("%s is the only served version: without it no object can be read or written", version),
		}
		if to := s.promotable(version); to != "" {
			blocker.Resolve = s.command("restore", to)
		}
		return []v1alpha1.Blocker{blocker}
	}
	return nil
}

// promotable returns the best version to promote instead of another: the
// highest-priority served one that is not deprecated, else the highest that is
// not deprecated, else the highest.
func (s State) promotable(instead string) string {
	if to := s.Replacement(instead); to != "" {
		return to
	}
	best := ""
	for _, v := range s.Versions {
		if v.Name == instead {
			continue
		}
		if !v.Deprecated {
			return v.Name
		}
		if best == "" {
			best = v.Name
		}
	}
	return best
}

// mayOrphan tells which children name the version in their ownerReferences: the
// garbage collector deleted a child of a live owner when its owner's version
// was no longer served (fact 16).
func (s State) mayOrphan(version string, allowed bool) []v1alpha1.Blocker {
	refs := s.Observations.References
	if refs == nil || allowed {
		return nil
	}
	var blockers []v1alpha1.Blocker
	if len(refs.Owners) > 0 {
		var count int64
		details := make([]string, 0, len(refs.Owners))
		for _, o := range refs.Owners {
			count += o.Count
			details = append(details, fmt.Sprintf("%d %s: %s", o.Count, o.Resource, strings.Join(o.Examples, ", ")))
		}
		blockers = append(blockers, v1alpha1.Blocker{
			ID: BlockOwnerReferences,
			Message: fmt.Sprintf("%s an ownerReference to %s/%s %s: the garbage collector may delete them "+
				"although their owner is alive", english.PluralHave(count, "object"), s.CRD.Spec.Group, version, s.CRD.Spec.Names.Kind),
			Resolve: "let their controller rewrite the ownerReferences, or pass --allow-owner-references",
			Details: details,
		})
	}
	if len(refs.Unknown) > 0 {
		blockers = append(blockers, v1alpha1.Blocker{
			ID:      BlockUnknownReferences,
			Message: fmt.Sprintf("not all resources could be searched for ownerReferences to %s: %d could not", version, len(refs.Unknown)),
			Resolve: "run with an account that may list them, or pass --allow-owner-references",
			Details: refs.Unknown,
		})
	}
	return blockers
}

// MayMigrate tells why objects cannot be rewritten.
func (s State) MayMigrate() []v1alpha1.Blocker {
	var blockers []v1alpha1.Blocker
	if s.Endpoint() == "" {
		blockers = append(blockers, v1alpha1.Blocker{
			ID:      BlockNoneServed,
			Message: "no version is served: objects can neither be read nor rewritten",
			Resolve: s.command("restore", s.Storage),
		})
	}
	for _, m := range s.Observations.Migrations {
		if m.Running {
			way := "pass --wait-for-svm to wait for it first"
			if m.Ours {
				way = "pass --engine in-tree to follow it"
			}
			blockers = append(blockers, v1alpha1.Blocker{
				ID: BlockMigrationRunning,
				Message: fmt.Sprintf("StorageVersionMigration %s is not finished: it would trim status.storedVersions "+
					"behind our back", m.Name),
				Resolve: fmt.Sprintf("%s, or kubectl delete storageversionmigration %s", way, m.Name),
			})
		}
	}
	return blockers
}

// MayRemove tells why a version cannot be removed from spec.versions.
func (s State) MayRemove(version string) []v1alpha1.Blocker {
	v := s.Version(version)
	blockers := s.mayLeave(version)
	if v.Served && len(blockers) == 0 {
		blockers = append(blockers, v1alpha1.Blocker{
			ID:      BlockStillServed,
			Message: fmt.Sprintf("%s is still served", version),
			Resolve: s.command("retire", version),
		})
	}
	if s.BrownedOut(version) {
		blockers = append(blockers, v1alpha1.Blocker{
			ID:      BlockBrownout,
			Message: fmt.Sprintf("%s is not served because of a brownout, after which it is served again", version),
			Resolve: s.command("restore", version),
		})
	}
	if v.Stored {
		blockers = append(blockers, v1alpha1.Blocker{
			ID:      BlockStored,
			Message: fmt.Sprintf("%s is in status.storedVersions: the server refuses to remove it", version),
			Resolve: s.command("migrate"),
		})
	}
	return blockers
}

// Next returns the command that should be run next and why, or two empty strings.
func (s State) Next() (command, why string) {
	if !s.CRD.Origin.Live() {
		return "", ""
	}
	storage := s.Version(s.Storage)
	switch {
	case s.Observations.Terminating, storage == nil:
		return "", ""
	case s.Endpoint() == "":
		return s.command("restore", s.Storage), "no version is served"
	}
	if command, why := s.afterBrownout(); command != "" {
		return command, why
	}
	if lost := s.Observations.LostVersion; lost != "" {
		return s.command("rescue"), Lost(s.CRD, lost)
	}
	if rescued := Rescued(s.CRD); len(rescued) > 0 {
		return s.command("rescue"), fmt.Sprintf("a rescue of the objects at %s did not come to its end", strings.Join(rescued, ", "))
	}
	// Alphabetical order says nothing about age: names that do not conform are
	// never recommended.
	if best := s.Replacement(""); best != "" && best != s.Storage && apiversion.Parse(best).Stability != apiversion.NonConforming &&
		(storage.Deprecated || apiversion.Compare(best, s.Storage) > 0) {
		return s.command("promote", best), fmt.Sprintf("objects are stored at %s, and %s comes first", s.Storage, best)
	}
	if others := s.StoredElsewhere(s.Storage); len(others) > 0 {
		return s.command("migrate"), fmt.Sprintf("objects may still be stored at %s", strings.Join(others, ", "))
	}
	if !s.Trust.Trusted {
		return s.command("migrate"), "storedVersions cannot be trusted"
	}
	for i := len(s.Versions) - 1; i >= 0; i-- {
		v := s.Versions[i]
		if v.Storage || len(s.mayLeave(v.Name)) > 0 || s.BrownedOut(v.Name) {
			continue
		}
		switch {
		case !v.Served && apiversion.Compare(s.Storage, v.Name) > 0:
			return s.command("retire", v.Name), fmt.Sprintf("%s is not served and no longer stored", v.Name)
		case v.Deprecated && apiversion.Compare(s.Storage, v.Name) > 0:
			return s.command("retire", v.Name), fmt.Sprintf("%s is deprecated and no longer stored", v.Name)
		}
	}
	return "", ""
}

// Notes are things to know about the CRD that need no command.
func (s State) Notes() []string {
	var notes []string
	for _, v := range s.Versions {
		if v.TiesWith != "" && v.Name < v.TiesWith {
			notes = append(notes, fmt.Sprintf("%s and %s have the same priority: the server's discovery documents may "+
				"disagree about the default", v.Name, v.TiesWith))
		}
	}
	if served := s.Served(); len(served) == 0 {
		notes = append(notes, "no version is served")
	} else if d := s.Version(served[0]); d.Deprecated {
		if s.Replacement("") == "" {
			notes = append(notes, "all served versions are deprecated: the kind itself is being retired")
		} else {
			notes = append(notes, fmt.Sprintf("kubectl's default %s is deprecated; %s cannot become the default while %s is served",
				d.Name, s.Replacement(""), d.Name))
		}
	}
	if storage := s.Version(s.Storage); storage != nil && !storage.Served {
		notes = append(notes, fmt.Sprintf("storage version %s is not served", s.Storage))
	}
	if m := s.Reverter(); m != nil {
		notes = append(notes, fmt.Sprintf("owned by %s: change the manifest there too, or the spec will be put back", m.Name))
	}
	if note := s.holdNote(); note != "" {
		notes = append(notes, note)
	}
	notes = append(notes, s.markNotes()...)
	return append(notes, s.discoveryNotes()...)
}

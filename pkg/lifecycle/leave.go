package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// Identifiers of the blockers of [State.Leave] that no legal move gives.
const (
	BlockNotProven     = "not-proven"
	BlockUntrusted     = "stored-versions-untrusted"
	BlockInUse         = "in-use"
	BlockManagedFields = "managed-fields"
)

// Leave tells whether a version may leave the manifest of the CRD as far as this
// cluster is concerned: applying a manifest without it removes it at once, and
// nobody checks but the server, which looks at status.storedVersions alone. use is
// who uses the version, nil if it was not looked for; acceptClaims takes
// status.storedVersions at its word where nothing speaks against it, which rule 3
// of the design does not.
func (s State) Leave(version string, use *v1alpha1.VersionUsage, acceptClaims bool) v1alpha1.CanRemoveItem {
	item := v1alpha1.CanRemoveItem{CRD: s.CRD.Name, Version: version, Objects: s.Observations.Objects}
	v := s.Version(version)
	if v == nil {
		s.left(&item)
		return item
	}
	item.Served, item.Storage = &v.Served, &v.Storage
	item.Blockers = s.MayRemove(version)
	stored, proof := v.Stored || v.Storage, v1alpha1.ProofListed
	if !stored {
		proof = s.proof()
		item.Blockers = append(item.Blockers, s.unproven(version, proof, acceptClaims)...)
	}
	item.Stored, item.Proof = &stored, proof
	if use != nil {
		item.Usage, item.UsageWhy = use.Verdict, use.Why
		item.Blockers = append(item.Blockers, s.used(version, *use)...)
	}
	item.Verdict = v1alpha1.LeaveClear
	if len(item.Blockers) > 0 {
		item.Verdict = v1alpha1.LeaveBlocked
	}
	return item
}

// left is Leave for a version that the CRD does not have: it has left already,
// and its objects should have been rewritten before.
func (s State) left(item *v1alpha1.CanRemoveItem) {
	stored := false
	switch {
	case slices.Contains(s.Stored, item.Version):
		stored, item.Proof = true, v1alpha1.ProofListed
		item.Blockers = append(item.Blockers, v1alpha1.Blocker{
			ID:      BlockStored,
			Message: fmt.Sprintf("%s is in status.storedVersions but not in spec.versions: objects may be stored at it", item.Version),
			Resolve: s.command("migrate"),
		})
	case slices.Contains(s.Lost(), item.Version):
		stored, item.Proof = true, v1alpha1.ProofMet
		item.Blockers = append(item.Blockers, v1alpha1.Blocker{
			ID: BlockLostVersion, Message: Lost(s.CRD, item.Version), Resolve: s.command("rescue"),
		})
	}
	item.Stored = &stored
	item.Verdict, item.Why = v1alpha1.LeaveNotConcerned, "the CRD does not have this version (any more)"
	if stored {
		item.Verdict, item.Why = v1alpha1.LeaveBlocked, ""
	}
}

// proof tells how much is known of the versions that status.storedVersions does not
// list.
func (s State) proof() v1alpha1.StoredProof {
	switch objects := s.Observations.Objects; {
	case !s.Trust.Trusted && (objects == nil || *objects > 0):
		return v1alpha1.ProofUntrusted
	case objects != nil && *objects == 0:
		return v1alpha1.ProofNoObjects
	case s.Proven():
		return v1alpha1.ProofVerified
	default:
		return v1alpha1.ProofClaimed
	}
}

// unproven blocks where nothing proves that no object is stored at the version.
func (s State) unproven(version string, proof v1alpha1.StoredProof, acceptClaims bool) []v1alpha1.Blocker {
	etcd := fmt.Sprintf("%s --at %s --etcd-endpoints URL", s.command("stored"), version)
	switch {
	case proof == v1alpha1.ProofUntrusted:
		return []v1alpha1.Blocker{{
			ID:      BlockUntrusted,
			Message: fmt.Sprintf("status.storedVersions does not list %s, but cannot be trusted: %s", version, strings.Join(s.Trust.Reasons, "; ")),
			Resolve: s.command("migrate"),
			Details: []string{"etcd tells, too: " + etcd},
		}}
	case proof == v1alpha1.ProofClaimed && !acceptClaims:
		return []v1alpha1.Blocker{{
			ID:      BlockNotProven,
			Message: fmt.Sprintf("that no object is stored at %s is claimed by status.storedVersions, not proven", version),
			Resolve: s.command("migrate") + " --force",
			Details: []string{"etcd tells, too; once it has, pass --accept-claims: " + etcd},
		}}
	}
	return nil
}

// used blocks where somebody uses the version, or where managedFields name it:
// these break server-side apply once it is gone, and applying a manifest does not
// clean them (fact 5).
func (s State) used(version string, use v1alpha1.VersionUsage) []v1alpha1.Blocker {
	var blockers []v1alpha1.Blocker
	if use.Verdict == v1alpha1.UsageInUse {
		blockers = append(blockers, v1alpha1.Blocker{
			ID: BlockInUse, Message: fmt.Sprintf("%s is in use: %s", version, use.Why), Resolve: s.command("usage", version),
		})
	}
	var managers []string
	for _, evidence := range use.Evidence {
		if evidence.Source == v1alpha1.UsageManagedFields && !slices.Contains(managers, evidence.Who) {
			managers = append(managers, evidence.Who)
		}
	}
	if len(managers) > 0 {
		blockers = append(blockers, v1alpha1.Blocker{
			ID: BlockManagedFields,
			Message: fmt.Sprintf("managedFields of objects name %s (%s): once it is gone, every server-side apply to them fails",
				version, summary(managers)),
			Resolve: s.command("retire", version),
		})
	}
	return blockers
}

// summary names the first few.
func summary(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

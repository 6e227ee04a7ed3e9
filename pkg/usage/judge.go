package usage

import (
	"fmt"
	"slices"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// Judge says what the evidence of one version comes to, and why in a sentence.
//
//   - In use: a request was made within the window that ends now, or at an unknown
//     time that may be within it; or something that acts by itself, or breaks
//     without anybody's doing, names the version (see [acts]).
//   - Probably unused: there are only older requests, requests of those who have
//     moved on, records of the past; or nothing, but a source that tells of use by
//     itself could not be looked at.
//   - No evidence of use: nothing, and nothing left that would tell. What somebody
//     may do (capability) is no use.
func Judge(evidence []v1alpha1.UsageEvidence, unlooked []v1alpha1.Unlooked, window time.Duration, now time.Time) (v1alpha1.UsageVerdict, string) {
	if using := slices.IndexFunc(evidence, func(e v1alpha1.UsageEvidence) bool { return inUse(e, window, now) }); using >= 0 {
		return v1alpha1.UsageInUse, reason(evidence[using], now)
	}
	past := slices.ContainsFunc(evidence, func(e v1alpha1.UsageEvidence) bool { return e.Proves != v1alpha1.ProvesCapability })
	if past {
		return v1alpha1.UsageProbablyUnused, fmt.Sprintf("there is only what is older than %s, or a record of the past", window)
	}
	if missing := slices.IndexFunc(unlooked, func(u v1alpha1.Unlooked) bool { return !u.Optional }); missing >= 0 {
		return v1alpha1.UsageProbablyUnused, fmt.Sprintf("nothing was found, but %s could not be looked at", unlooked[missing].Source)
	}
	return v1alpha1.UsageNoEvidence, "all that tells of use was looked at"
}

// inUse tells whether one piece of evidence alone makes a version one in use.
func inUse(e v1alpha1.UsageEvidence, window time.Duration, now time.Time) bool {
	switch {
	case e.Stale:
		return false
	case e.Proves == v1alpha1.ProvesReference:
		return acts(e.Source)
	case e.Proves == v1alpha1.ProvesUse:
		// A clock ahead of ours makes a time of the future: that is recent.
		return e.LastSeen == nil || now.Sub(e.LastSeen.Time) <= window
	default:
		return false
	}
}

// acts tells whether what names the version in a source asks for it again by
// itself or fails without it: the garbage collector resolves owner references
// (fact 16), GitOps tools apply, a Helm upgrade cannot even be computed, the next
// apply of a file fails. The rules of webhooks and policies use nothing, the HPA
// controller goes by group and kind, and an annotation of the last apply is history.
func acts(source v1alpha1.UsageSource) bool {
	switch source {
	case v1alpha1.UsageOwnerReference, v1alpha1.UsageArgoCD, v1alpha1.UsageFlux, v1alpha1.UsageHelm, v1alpha1.UsageManifest:
		return true
	case v1alpha1.UsageManagedFields, v1alpha1.UsageLastApplied, v1alpha1.UsageMetrics, v1alpha1.UsageAudit, v1alpha1.UsageRBAC,
		v1alpha1.UsageWebhook, v1alpha1.UsagePolicy, v1alpha1.UsageHPA:
		return false
	default:
		return false
	}
}

func reason(e v1alpha1.UsageEvidence, now time.Time) string {
	if e.Proves == v1alpha1.ProvesReference {
		return fmt.Sprintf("%s %s names it", e.WhoKind, e.Who)
	}
	if e.LastSeen == nil {
		return fmt.Sprintf("%s %s used it", e.WhoKind, e.Who)
	}
	return fmt.Sprintf("%s %s used it %s ago", e.WhoKind, e.Who, max(now.Sub(e.LastSeen.Time), 0).Round(time.Second))
}

package cmd

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/apiversion"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// versionItems returns the versions of a CRD as "sort" documents them.
func versionItems(s lifecycle.State) []v1alpha1.Version {
	live := s.CRD.Origin.Live()
	problem := s.DiscoveryProblem()
	items := make([]v1alpha1.Version, 0, len(s.Versions))
	for i, v := range s.Versions {
		item := v1alpha1.Version{
			CRD: s.CRD.Name, Group: s.CRD.Spec.Group, Kind: s.CRD.Spec.Names.Kind,
			Name: v.Name, Priority: v.Priority, Stability: v.Stability.String(),
			Served: &v.Served, Storage: &v.Storage, Deprecated: &v.Deprecated,
			KubectlDefault: v.Name == s.KubectlDefault, TiesWith: v.TiesWith,
			Origin: s.CRD.Origin.String(), DiscoveryProblem: problem,
		}
		if live {
			item.Stored = &v.Stored
		}
		if i+1 < len(s.Versions) {
			item.Why = apiversion.Explain(v.Name, s.Versions[i+1].Name)
		}
		if d := s.Observations.Discovery; d != nil {
			item.GroupPriority = slices.Index(d.Group, v.Name) + 1
			item.AggregatedPriority = slices.Index(d.Aggregated, v.Name) + 1
		}
		items = append(items, item)
	}
	return items
}

// bareItems returns version names without a CRD as "sort" documents them.
func bareItems(names []string) []v1alpha1.Version {
	sorted := slices.Compact(apiversion.Sorted(names))
	items := make([]v1alpha1.Version, 0, len(sorted))
	for i, name := range sorted {
		item := v1alpha1.Version{Name: name, Priority: i + 1, Stability: apiversion.Parse(name).Stability.String()}
		for _, other := range sorted {
			if item.TiesWith == "" && apiversion.Tie(name, other) {
				item.TiesWith = other
			}
		}
		if i+1 < len(sorted) {
			item.Why = apiversion.Explain(name, sorted[i+1])
		}
		items = append(items, item)
	}
	return items
}

// statusItem returns a CRD as "status" documents it.
func statusItem(s lifecycle.State) v1alpha1.CRDStatus {
	c := s.CRD
	item := v1alpha1.CRDStatus{
		Name: c.Name, UID: string(c.UID), ResourceVersion: c.ResourceVersion, Generation: c.Generation,
		Group: c.Spec.Group, Kind: c.Spec.Names.Kind, Plural: c.Spec.Names.Plural, Scope: string(c.Spec.Scope),
		Origin: c.Origin.String(), Versions: []v1alpha1.VersionStatus{},
		Served: c.Served(), Deprecated: c.Deprecated(),
		StorageVersion: s.Storage, KubectlDefault: s.KubectlDefault,
		ConversionStrategy: string(c.ConversionStrategy()),
		Objects:            s.Observations.Objects, ObjectsError: s.Observations.ObjectsError,
		Notes: slices.Concat(s.Notes(), conditionNotes(s), caBundleNotes(c)),
	}
	for _, v := range s.Versions {
		item.Versions = append(item.Versions, v1alpha1.VersionStatus{
			Name: v.Name, Priority: v.Priority, Stability: v.Stability.String(),
			Served: v.Served, Storage: v.Storage, Stored: v.Stored, Deprecated: v.Deprecated,
			DeprecationWarning: v.Warning, State: v.State(),
		})
	}
	for _, m := range s.Managers {
		item.Managers = append(item.Managers, v1alpha1.Manager(m))
	}
	if c.Origin.Live() {
		established := c.Established()
		item.Established = &established
		item.StoredVersions = s.Stored
		item.StoredVersionsTrust = &v1alpha1.Trust{Trusted: s.Trust.Trusted, Reasons: s.Trust.Reasons}
	}
	if d := s.Observations.Discovery; d != nil {
		problem := s.DiscoveryProblem()
		item.Discovery = &v1alpha1.Discovery{Group: d.Group, Aggregated: d.Aggregated, Agrees: problem == "", Problem: problem}
		if problem == "" && d.APIServicesError != "" {
			item.Discovery.Problem = "APIServices could not be listed: " + d.APIServicesError
		}
	}
	if command, why := s.Next(); command != "" {
		item.Next = &v1alpha1.Next{Command: command, Why: why}
	}
	return item
}

// conditionNotes returns the conditions of a live CRD that are not as they
// should be.
func conditionNotes(s lifecycle.State) []string {
	if !s.CRD.Origin.Live() {
		return nil
	}
	var notes []string
	if len(s.CRD.Status.Conditions) == 0 {
		notes = append(notes, "the server has not looked at the CRD yet: it has no conditions")
	}
	for _, condition := range s.CRD.Status.Conditions {
		good := apiextensionsv1.ConditionTrue
		switch condition.Type {
		case apiextensionsv1.Terminating, apiextensionsv1.NonStructuralSchema:
			good = apiextensionsv1.ConditionFalse
		case apiextensionsv1.StorageMigrating:
			continue // Told with the reasons not to trust storedVersions.
		case apiextensionsv1.Established, apiextensionsv1.NamesAccepted, apiextensionsv1.KubernetesAPIApprovalPolicyConformant:
		}
		if condition.Status != good {
			notes = append(notes, fmt.Sprintf("condition %s is %s (%s): %s", condition.Type, condition.Status, condition.Reason, condition.Message))
		}
	}
	return notes
}

// warningsOf returns what "sort" and "status" warn about. named says that the
// CRD was asked for by name or comes from a manifest: then each deprecated
// version counts, and otherwise only one that clients get unasked.
func warningsOf(s lifecycle.State, named bool) []string {
	var warnings []string
	for i, v := range s.Versions {
		if v.Served && v.Deprecated && (named || v.Name == s.KubectlDefault) {
			text := deprecationWarning(s, v)
			if v.Warning != "" {
				// Somebody's own text may name nothing.
				text = fmt.Sprintf("%s/%s %s: %s", s.CRD.Spec.Group, v.Name, s.CRD.Spec.Names.Kind, text)
			}
			warnings = append(warnings, text)
		}
		// Versions that tie are next to each other.
		if i > 0 && apiversion.Tie(s.Versions[i-1].Name, v.Name) {
			warnings = append(warnings, fmt.Sprintf("%s: %s and %s have the same priority: which one kubectl uses is undefined",
				s.CRD.Name, s.Versions[i-1].Name, v.Name))
		}
	}
	if d := s.Observations.Discovery; d != nil && d.Error != "" {
		// Without the CRD's name, so that it is said once for all.
		warnings = append(warnings, "discovery could not be read: "+d.Error)
	} else if problem := s.DiscoveryProblem(); problem != "" {
		warnings = append(warnings, s.CRD.Name+": "+problem)
	}
	if storage := s.CRD.StorageVersions(); len(storage) != 1 && !s.CRD.Origin.Live() {
		warnings = append(warnings, fmt.Sprintf("%s (%s): the API server refuses a CRD with %d storage versions (%s): set storage: true on exactly one",
			s.CRD.Name, s.CRD.Origin, len(storage), strings.Join(storage, ", ")))
	}
	return warnings
}

// deprecationWarning returns the text that the API server sends with each
// request at a deprecated version.
func deprecationWarning(s lifecycle.State, v lifecycle.Version) string {
	if v.Warning != "" {
		return v.Warning
	}
	group, kind := s.CRD.Spec.Group, s.CRD.Spec.Names.Kind
	text := fmt.Sprintf("%s/%s %s is deprecated", group, v.Name, kind)
	// The server names a replacement only if it has the higher priority.
	if better := s.Replacement(v.Name); better != "" && s.Version(better).Priority < v.Priority {
		text += fmt.Sprintf("; use %s/%s %s", group, better, kind)
	}
	return text
}

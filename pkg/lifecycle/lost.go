package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// RescuedAnnotation lists the versions that "rescue" added to a CRD again. It is
// written in the same patch as the addition and taken away in the same patch as
// the removal, so that a run that was killed in between can be continued, and a
// version that somebody else added is never removed.
const RescuedAnnotation = "crdver.dev/rescued"

// RehearsalAnnotation is the key of the annotation that says that a rescue serves a
// version for its rehearsal. It comes and goes with that service: what is served
// without it, somebody else serves, and clients may use it.
func RehearsalAnnotation(version string) string { return "rescue.crdver.dev/" + version }

// RescueNames returns the versions of a CRD that a rescue added and that are still there.
func RescueNames(c crd.CRD) []string {
	var names []string
	for name := range strings.SplitSeq(c.Annotations[RescuedAnnotation], ",") {
		if c.Version(name) != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// KeepsEveryField reports whether the schema of a version surely drops no field.
func KeepsEveryField(c crd.CRD, version string) bool {
	if c.Spec.PreserveUnknownFields {
		return true
	}
	v := c.Version(version)
	if v == nil || v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return false
	}
	root := v.Schema.OpenAPIV3Schema
	return root.XPreserveUnknownFields != nil && *root.XPreserveUnknownFields && len(root.Properties) == 0 && root.AdditionalProperties == nil
}

// Rescued returns those that are there for the rescue only, which did not come to
// its end: nobody else serves them, objects are not written at them, and nobody gave
// them another schema since, with which a rescue would not see what it loses.
func Rescued(c crd.CRD) []string {
	return slices.DeleteFunc(RescueNames(c), func(name string) bool {
		_, rehearsed := c.Annotations[RehearsalAnnotation(name)]
		v := c.Version(name)
		changed := v.Schema != nil && !KeepsEveryField(c, name) // Status reads CRDs without their schemas.
		return v.Storage || v.Served && !rehearsed || changed
	})
}

// Lost returns the versions that objects are stored at, as far as that was seen,
// and that spec.versions does not have.
func (s State) Lost() []string {
	var lost []string
	for _, version := range append([]string{s.Observations.LostVersion}, s.Observations.LostVersions...) {
		if version != "" && s.Version(version) == nil && !slices.Contains(lost, version) {
			lost = append(lost, version)
		}
	}
	return lost
}

// MayReadObjects tells why the objects cannot be read, where that was seen: some
// are persisted at a version that the CRD does not have (facts 1, 14 and 15).
func (s State) MayReadObjects() []v1alpha1.Blocker {
	lost := s.Observations.LostVersion
	if lost == "" {
		return nil
	}
	return []v1alpha1.Blocker{{ID: BlockLostVersion, Message: Lost(s.CRD, lost), Resolve: Rescue(s.CRD, lost)}}
}

// MayOrphan tells which children name versions in their ownerReferences that
// are about to be no longer served (fact 16).
func (s State) MayOrphan(versions []string, allowed bool) []v1alpha1.Blocker {
	return s.mayOrphan(strings.Join(versions, ", "), allowed)
}

// Lost says what is the matter with objects that are persisted at a version
// which the CRD does not have. They look corrupt and are not.
func Lost(c crd.CRD, version string) string {
	return fmt.Sprintf("objects are stored at %s, which spec.versions of %s no longer has: they are intact, but cannot be read",
		version, c.Name)
}

// Rescue says how such objects can be read again.
func Rescue(c crd.CRD, version string) string {
	return fmt.Sprintf("kubectl crdver rescue %s (adds %s again, rewrites the objects, and removes it; "+
		"-f MANIFEST, with a manifest that still has %[2]s, tells beforehand which fields would be lost)", c.Name, version)
}

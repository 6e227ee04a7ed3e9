package usage

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// Target is what evidence is collected of: versions of one CRD.
type Target struct {
	CRD crd.CRD
	// Versions are names of versions, which the CRD need not have any more.
	Versions []string
}

// Group returns the group of the CRD.
func (t Target) Group() string { return t.CRD.Spec.Group }

// Has tells whether an apiVersion, as in "example.com/v1", names one of the
// versions, and which.
func (t Target) Has(apiVersion string) (version string, named bool) {
	parsed, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || parsed.Group != t.Group() || !slices.Contains(t.Versions, parsed.Version) {
		return "", false
	}
	return parsed.Version, true
}

// Resource returns the resource of the CRD at a version.
func (t Target) Resource(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: t.Group(), Version: version, Resource: t.CRD.Spec.Names.Plural}
}

// Collector looks at one source of evidence.
type Collector interface {
	// Source is what the collector looks at.
	Source() v1alpha1.UsageSource
	// Collect returns what tells of the use of the versions of a target, and what
	// of the source could not be looked at. Missing rights, an API that is not
	// there, a part that cannot be read are no errors but that; an error is an
	// interrupt, or input of the user that cannot be read.
	Collect(ctx context.Context, target Target) ([]v1alpha1.UsageEvidence, []v1alpha1.Unlooked, error)
}

// Seen returns a time for LastSeen, nil for an unknown one, in UTC.
func Seen(time *metav1.Time) *metav1.Time {
	if time.IsZero() {
		return nil
	}
	return &metav1.Time{Time: time.UTC()}
}

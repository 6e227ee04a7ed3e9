package usage

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
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

// Kind returns the kind of the CRD.
func (t Target) Kind() string { return t.CRD.Spec.Names.Kind }

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

// Endpoint returns the version to read the objects through, "" if none is served.
// Where it can be, it is none of those whose use is in question, because the
// server would count our own requests; and the storage version, because reading
// through another one needs the conversion to work.
func (t Target) Endpoint() string {
	served, storage := t.CRD.Served(), t.CRD.StorageVersion()
	others := slices.DeleteFunc(slices.Clone(served), func(version string) bool { return slices.Contains(t.Versions, version) })
	for _, choice := range [][]string{others, served} {
		if slices.Contains(choice, storage) {
			return storage
		}
		if len(choice) > 0 {
			return choice[0]
		}
	}
	return ""
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

// Counter is a Collector that counts the objects of a CRD on the way.
type Counter interface {
	// Objects returns the number of objects of a CRD by its name, once they were
	// all read.
	Objects(name string) (count int64, known bool)
}

// Seen returns a time for LastSeen, nil for an unknown one, in UTC.
func Seen(time *metav1.Time) *metav1.Time {
	if time.IsZero() {
		return nil
	}
	return &metav1.Time{Time: time.UTC()}
}

// why says why something could not be read.
func why(what string, err error) string {
	failure := cluster.Explain(err)
	if failure.Reason == cluster.ReasonForbidden {
		return "you may not list " + what
	}
	return fmt.Sprintf("%s could not be read: %s", what, failure.Message)
}

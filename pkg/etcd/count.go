package etcd

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/apiversion"
)

// The words that stand for values that tell no version, where a version is asked for.
const (
	AtEncrypted   = "encrypted"
	AtUndecodable = "undecodable"
)

// Target is a resource to count.
type Target struct {
	Resource schema.GroupResource
	// CRD is nil where etcd has none for the resource.
	CRD *apiextensionsv1.CustomResourceDefinition
}

// TargetOf returns the resource of a CRD.
func TargetOf(crd *apiextensionsv1.CustomResourceDefinition) Target {
	return Target{Resource: schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}, CRD: crd}
}

// CountOptions say what to find out beside the counts.
type CountOptions struct {
	// Namespaces counts by namespace, too.
	Namespaces bool
	// Namespace leaves out objects of all others; empty counts all.
	Namespace string
	// At lists the objects that are persisted at this version; AtEncrypted and
	// AtUndecodable list those whose version is unknown.
	At string
}

// Count counts the objects of resources by the version that they are persisted
// at. The result is in the order of the targets.
func Count(ctx context.Context, source Source, targets []Target, options CountOptions) ([]v1alpha1.StoredCRD, error) {
	counter := &counter{options: options, tallies: make(map[schema.GroupResource]*tally, len(targets))}
	var resources []schema.GroupResource
	for _, target := range targets {
		counter.tallies[target.Resource] = &tally{target: target}
		resources = append(resources, target.Resource)
	}
	if len(resources) == 0 {
		return nil, nil
	}
	if err := source.Scan(ctx, resources, counter); err != nil {
		return nil, err
	}
	items := make([]v1alpha1.StoredCRD, 0, len(targets))
	for _, target := range targets {
		items = append(items, counter.tallies[target.Resource].item(options))
	}
	return items, nil
}

// place is where an object is persisted: at a version, or nobody can tell.
type place struct {
	version     string
	provider    string
	undecodable bool
}

// at reports whether a place is meant by a version, or by a word for none.
func (p place) at(version string) bool {
	switch {
	case p.provider != "":
		return version == AtEncrypted
	case p.undecodable:
		return version == AtUndecodable
	}
	return p.version == version
}

// tally is what was counted of one resource.
type tally struct {
	target     Target
	revision   int64
	places     map[place]int64
	namespaces map[string]map[place]int64
	found      []v1alpha1.StoredObject
}

type counter struct {
	options CountOptions
	tallies map[schema.GroupResource]*tally
}

func (c *counter) Begin(resource schema.GroupResource, revision int64) {
	t := c.tallies[resource]
	*t = tally{target: t.target, revision: revision, places: map[place]int64{}, namespaces: map[string]map[place]int64{}}
}

func (c *counter) Visit(object Object) {
	t := c.tallies[object.Resource]
	namespace := object.Namespace()
	if c.options.Namespace != "" && namespace != c.options.Namespace {
		return
	}
	at := placeOf(object)
	t.places[at]++
	if c.options.Namespaces {
		if t.namespaces[namespace] == nil {
			t.namespaces[namespace] = map[place]int64{}
		}
		t.namespaces[namespace][at]++
	}
	if c.options.At != "" && at.at(c.options.At) {
		t.found = append(t.found, v1alpha1.StoredObject{Namespace: namespace, Name: object.Name()})
	}
}

// placeOf returns where an object is persisted. With an apiVersion of another group,
// or of none, as "v1", a value is not what an API server writes for the resource: it
// is at no version of the CRD, whatever its own is called.
func placeOf(object Object) place {
	head := ReadHead(object.Value)
	switch {
	case head.Provider != "":
		return place{provider: head.Provider}
	case !head.Decoded():
		return place{undecodable: true}
	}
	version, ours := strings.CutPrefix(head.APIVersion, object.Resource.Group+"/")
	if !ours || version == "" || strings.Contains(version, "/") {
		return place{undecodable: true}
	}
	return place{version: version}
}

// item returns the tally as it is reported.
func (t *tally) item(options CountOptions) v1alpha1.StoredCRD {
	item := v1alpha1.StoredCRD{
		Name: t.target.Resource.String(), Group: t.target.Resource.Group, Plural: t.target.Resource.Resource, Revision: t.revision,
		Stored: t.counts(t.places, options.Namespace == ""),
	}
	if crd := t.target.CRD; crd != nil {
		item.UID, item.Kind, item.Scope = string(crd.UID), crd.Spec.Names.Kind, string(crd.Spec.Scope)
		item.StoredVersions, item.Versions = crd.Status.StoredVersions, versions(crd)
		item.StorageVersion = storageVersion(crd)
	}
	for _, count := range item.Stored {
		item.Objects += count.Objects
	}
	if options.Namespaces {
		for _, namespace := range slices.Sorted(maps.Keys(t.namespaces)) {
			item.Namespaces = append(item.Namespaces, v1alpha1.StoredNamespace{
				Namespace: namespace, Stored: t.counts(t.namespaces[namespace], false),
			})
		}
	}
	item.Found = t.found
	slices.SortFunc(item.Found, func(a, b v1alpha1.StoredObject) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return item
}

// counts returns the counts, those of versions first, by priority. all adds the
// versions that status.storedVersions lists and that nothing is persisted at.
func (t *tally) counts(places map[place]int64, all bool) []v1alpha1.StoredCount {
	counts := []v1alpha1.StoredCount{}
	for at, objects := range places {
		counts = append(counts, v1alpha1.StoredCount{
			Version: at.version, Encrypted: at.provider, Undecodable: at.undecodable, Objects: objects, State: t.state(at),
		})
	}
	if crd := t.target.CRD; crd != nil && all {
		for _, version := range crd.Status.StoredVersions {
			if at := (place{version: version}); places[at] == 0 {
				counts = append(counts, v1alpha1.StoredCount{Version: version, State: t.state(at)})
			}
		}
	}
	slices.SortFunc(counts, func(a, b v1alpha1.StoredCount) int {
		if a.Version == "" || b.Version == "" {
			return cmp.Or(-cmp.Compare(a.Version, b.Version), -cmp.Compare(a.Encrypted, b.Encrypted))
		}
		return cmp.Or(-apiversion.Compare(a.Version, b.Version), cmp.Compare(a.Version, b.Version))
	})
	return slices.Compact(counts) // storedVersions may repeat itself (fact 13).
}

// state says what is right or wrong with objects at a place.
func (t *tally) state(at place) v1alpha1.StoredState {
	crd := t.target.CRD
	switch {
	case at.provider != "":
		return v1alpha1.StoredEncrypted
	case at.undecodable:
		return v1alpha1.StoredUndecodable
	case crd == nil:
		return v1alpha1.StoredWithoutCRD
	case !slices.Contains(versions(crd), at.version):
		return v1alpha1.StoredUnreadable
	case !slices.Contains(crd.Status.StoredVersions, at.version):
		return v1alpha1.StoredUnlisted
	case storageVersion(crd) == at.version:
		return v1alpha1.StoredCurrent
	default:
		return v1alpha1.StoredListed
	}
}

func versions(crd *apiextensionsv1.CustomResourceDefinition) []string {
	names := make([]string, 0, len(crd.Spec.Versions))
	for _, version := range crd.Spec.Versions {
		names = append(names, version.Name)
	}
	apiversion.Sort(names)
	return names
}

func storageVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			return version.Name
		}
	}
	return ""
}

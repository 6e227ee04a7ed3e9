package lifecycle

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// PutBackManager is the field manager that this tool puts versions back into
// storedVersions with. It is another one than [FieldManager], whose name on the
// list says that every object was verified.
const PutBackManager = "kubectl-crdver-put-back"

// provenSince reports whether this tool was the last to change storedVersions:
// what in-tree migrations did, they did before its proof. The controller trims
// by server-side apply, which leaves its name on the list when it succeeds or
// fails; and a second migration trims when it starts only where no other name is
// on it (facts 1 and 2).
func provenSince(c crd.CRD) bool {
	writers := storedVersionsWriters(c)
	return len(writers) > 0 && !slices.ContainsFunc(writers, func(w writer) bool { return w.manager != FieldManager })
}

// ServerTrimmed reports whether the storedVersions of a CRD, which listed more a
// moment ago, were trimmed by the in-tree migration controller and nobody else:
// it leaves only the storage version, its condition is there, and no other name
// is on the list.
func ServerTrimmed(c *apiextensionsv1.CustomResourceDefinition, before []string) bool {
	one := crd.CRD{CustomResourceDefinition: c}
	storage := one.StorageVersion()
	if !slices.Equal(c.Status.StoredVersions, []string{storage}) || len(before) < 2 || !slices.Contains(before, storage) {
		return false
	}
	return one.Condition(apiextensionsv1.StorageMigrating) != nil &&
		!slices.ContainsFunc(storedVersionsWriters(one), func(w writer) bool { return w.manager != inTreeFieldManager })
}

// PutBack returns the stored versions that an in-tree migration of this tool may
// have trimmed without a proof, so that they have to be listed again: those that
// were listed when it was made. A version that is no longer in spec.versions
// cannot be: it would block every change of the spec (fact 13).
func (s State) PutBack() []string {
	if s.Trust.Trusted {
		return nil
	}
	var missing []string
	for _, m := range s.Observations.Migrations {
		for _, name := range m.Stored {
			if s.Version(name) != nil && !slices.Contains(s.Stored, name) && !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
	}
	return missing
}

// Package lifecycle turns a CRD and what was observed around it into its State
// in the life of a version, and decides which moves are legal. Commands never
// decide legality on their own.
package lifecycle

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apiversion"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// State is a CRD in the life of its versions.
type State struct {
	CRD          crd.CRD
	Observations Observations

	// Versions are the entries of spec.versions, highest priority first.
	Versions []Version
	// Storage is the version with storage: true.
	Storage string
	// Stored is status.storedVersions as the server lists it; it can claim less
	// than the truth, see Trust.
	Stored []string
	// KubectlDefault is the highest-priority served version.
	KubectlDefault string
	// Trust is the verdict on Stored.
	Trust Trust
	// Managers are the tools that appear to own the CRD.
	Managers []Manager
}

// Version is one version's place in its life.
type Version struct {
	Name       string
	Priority   int
	Stability  apiversion.Stability
	Served     bool
	Storage    bool
	Stored     bool
	Deprecated bool
	Warning    string
	// TiesWith is another version with the same priority (fact 19).
	TiesWith string
}

// State returns the version's state in words of the life of a version.
func (v Version) State() string {
	var state string
	switch {
	case v.Storage && v.Served:
		return "storage"
	case v.Storage:
		return "storage, unserved"
	case !v.Served:
		state = "unserved"
	case v.Deprecated:
		state = "deprecated"
	default:
		state = "served"
	}
	if v.Stored {
		state += ", stored"
	}
	return state
}

// New derives the State. It is pure: the same CRD and observations give the
// same State.
func New(c crd.CRD, observations Observations) State {
	s := State{
		CRD:            c,
		Observations:   observations,
		Storage:        c.StorageVersion(),
		KubectlDefault: c.KubectlDefault(),
	}
	s.Observations.Terminating = c.DeletionTimestamp != nil
	if c.Origin.Live() {
		// Never from a manifest: its status has no effect (case 19).
		s.Stored = slices.Clone(c.Status.StoredVersions)
	}
	names := c.VersionNames()
	for i, name := range names {
		entry := c.Version(name)
		v := Version{
			Name:       name,
			Priority:   i + 1,
			Stability:  apiversion.Parse(name).Stability,
			Served:     entry.Served,
			Storage:    entry.Storage,
			Stored:     slices.Contains(s.Stored, name),
			Deprecated: entry.Deprecated,
		}
		if entry.DeprecationWarning != nil {
			v.Warning = *entry.DeprecationWarning
		}
		// Versions that tie are next to each other.
		for _, j := range []int{i - 1, i + 1} {
			if j >= 0 && j < len(names) && apiversion.Tie(name, names[j]) {
				v.TiesWith = names[j]
			}
		}
		s.Versions = append(s.Versions, v)
	}
	s.Managers = managers(c)
	s.Trust = trust(c, s)
	return s
}

// Version returns the version of that name, or nil.
func (s State) Version(name string) *Version {
	for i := range s.Versions {
		if s.Versions[i].Name == name {
			return &s.Versions[i]
		}
	}
	return nil
}

// Served returns the names of the served versions, highest priority first.
func (s State) Served() []string { return s.CRD.Served() }

// Endpoint returns the version to read and write objects through: the storage
// version when it is served, otherwise the highest-priority served version, and
// "" when none is served: then objects cannot be reached at all.
func (s State) Endpoint() string {
	if v := s.Version(s.Storage); v != nil && v.Served {
		return s.Storage
	}
	return s.KubectlDefault
}

// StoredElsewhere returns the stored versions other than one, which a trim to
// that one would remove.
func (s State) StoredElsewhere(version string) []string {
	var others []string
	for _, stored := range s.Stored {
		if stored != version && !slices.Contains(others, stored) {
			others = append(others, stored)
		}
	}
	return others
}

// BogusStored returns the stored versions that spec.versions does not have.
// The server accepts them on /status and then refuses every update of the spec
// (fact 13).
func (s State) BogusStored() []string {
	var bogus []string
	for _, stored := range s.Stored {
		if s.Version(stored) == nil && !slices.Contains(bogus, stored) {
			bogus = append(bogus, stored)
		}
	}
	return bogus
}

// StoredExactly reports whether storedVersions is [version], without duplicates.
func (s State) StoredExactly(version string) bool {
	return len(s.Stored) == 1 && s.Stored[0] == version
}

// Webhook reports whether objects are converted by a webhook.
func (s State) Webhook() bool {
	return s.CRD.ConversionStrategy() == apiextensionsv1.WebhookConverter
}

// Replacement returns the version that a deprecation warning of version should
// point to: the highest-priority served version that is not deprecated, or "".
func (s State) Replacement(version string) string {
	for _, v := range s.Versions {
		if v.Name != version && v.Served && !v.Deprecated {
			return v.Name
		}
	}
	return ""
}

// Nearest returns the version whose name is most like name, or "".
func (s State) Nearest(name string) string { return Nearest(name, s.CRD.VersionNames()) }

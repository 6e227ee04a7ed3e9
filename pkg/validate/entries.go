package validate

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// entry is a version as it stands in spec.versions. Rules about each version
// walk the entries: to look every version up by its name would be quadratic in
// their number.
type entry struct {
	*apiextensionsv1.CustomResourceDefinitionVersion

	index int
}

// path returns the path of a field of the entry, or of the entry itself.
func (e entry) path(field string) string {
	path := "spec.versions[" + itoa(e.index) + "]"
	if field != "" {
		path += "." + field
	}
	return path
}

// entries returns the versions in the order of spec.versions.
func (s *Subject) entries() []entry {
	entries := make([]entry, 0, len(s.CRD.Spec.Versions))
	for i := range s.CRD.Spec.Versions {
		entries = append(entries, entry{&s.CRD.Spec.Versions[i], i})
	}
	return entries
}

// storageEntry returns the version with storage: true, if there is exactly one.
func (s *Subject) storageEntry() (storage entry, one bool) {
	for _, e := range s.entries() {
		if e.Storage && one {
			return entry{}, false // Told by single-storage-version.
		}
		if e.Storage {
			storage, one = e, true
		}
	}
	return storage, one
}

// each is the check of a rule that looks at one version at a time. The second
// argument of check is the version that clients should use: the highest-priority
// served one that is not deprecated, or "".
func each(check func(s *Subject, best string, e entry) *Problem) func(*Subject) []Problem {
	return func(s *Subject) []Problem {
		var problems []Problem
		best := s.Replacement("")
		for _, e := range s.entries() {
			if problem := check(s, best, e); problem != nil {
				if problem.Version == "" {
					problem.Version = e.Name
				}
				problems = append(problems, *problem)
			}
		}
		return problems
	}
}

// condition returns a condition of the CRD with its path, or nil.
func (s *Subject) condition(
	kind apiextensionsv1.CustomResourceDefinitionConditionType,
) (condition *apiextensionsv1.CustomResourceDefinitionCondition, path string) {
	for i := range s.CRD.Status.Conditions {
		if s.CRD.Status.Conditions[i].Type == kind {
			return &s.CRD.Status.Conditions[i], "status.conditions[" + itoa(i) + "]"
		}
	}
	return nil, "status.conditions"
}

// listed joins names for a message; of very many only the first are named.
func listed(names []string) string {
	const most = 10
	text := ""
	for i, name := range names {
		switch {
		case i == most:
			return text + " and " + itoa(len(names)-most) + " more"
		case i > 0:
			text += ", "
		}
		text += name
	}
	return text
}

// entryAt returns the version that a path leads into.
func (s *Subject) entryAt(path string) (entry, bool) {
	i := versionIndex(path)
	if i < 0 || i >= len(s.CRD.Spec.Versions) {
		return entry{}, false
	}
	return entry{&s.CRD.Spec.Versions[i], i}, true
}

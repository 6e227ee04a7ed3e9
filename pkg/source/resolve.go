package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// maxListed is how many candidates an error lists.
const maxListed = 10

// Selection selects CRDs of a cluster that are not named. The zero value
// selects all for a command that reads, and none for one that changes.
type Selection struct {
	// Selector is a label selector.
	Selector string
	// Group is the API group of the CRDs.
	Group string
	// All selects every CRD.
	All bool
}

// Empty reports whether nothing was said about what to select.
func (s Selection) Empty() bool { return s == Selection{} }

// ErrNoneSelected says that flags select no CRD of the cluster.
var ErrNoneSelected = errors.New("no CustomResourceDefinition is selected; kubectl crdver status lists them all")

// NoneFitsError says that there are CRDs, but none that a command could change.
type NoneFitsError struct {
	// Looked is how many there are.
	Looked int
	// Selected says that flags selected them.
	Selected bool
}

// Error says how many there are and where to see them.
func (e *NoneFitsError) Error() string {
	if e.Selected {
		return fmt.Sprintf("none of the %d selected CustomResourceDefinitions fits; kubectl crdver status shows their versions", e.Looked)
	}
	return fmt.Sprintf("none of the %d CustomResourceDefinitions of the cluster fits; kubectl crdver status shows their versions", e.Looked)
}

// Each calls visit for the CRDs that args name, in that order, or else for the
// selected ones, page by page; it keeps none of them.
func Each(ctx context.Context, crds cluster.CRDs, args []string, selection Selection, visit func(crd.CRD) error) error {
	if len(args) == 0 {
		return list(ctx, crds, selection, visit)
	}
	if !selection.Empty() {
		return errors.New("name CRDs or select them with flags, not both")
	}
	names, found, err := resolveNames(ctx, crds, args)
	if err != nil {
		return err
	}
	for _, name := range names {
		one := found[name]
		if one == nil {
			if one, err = crds.Get(ctx, name); err != nil {
				return err
			}
		}
		if err := visit(crd.Live(one)); err != nil {
			return err
		}
	}
	return nil
}

// Resolve returns the CRDs that args name, in that order, or else the selected
// ones. A name is what kubectl takes: plural.group, also after "crd/" or a longer
// form of it, or a plural, singular, kind or short name, with or without the group.
func Resolve(ctx context.Context, crds cluster.CRDs, args []string, selection Selection) ([]crd.CRD, error) {
	var found []crd.CRD
	err := Each(ctx, crds, args, selection, func(one crd.CRD) error {
		found = append(found, one)
		return nil
	})
	return found, err
}

// Select returns the CRDs for a command that changes them: those that args
// name; without names, the selected ones that fit; and without a selection, the
// only one that fits. Otherwise the error lists a command for each candidate.
func Select(ctx context.Context, crds cluster.CRDs, args []string, selection Selection,
	fits func(crd.CRD) bool, command func(name string) string,
) ([]crd.CRD, error) {
	if len(args) > 0 {
		return Resolve(ctx, crds, args, selection)
	}
	if selection.Empty() {
		return onlyFitting(ctx, crds, fits, command)
	}
	selected, fitting := 0, []crd.CRD(nil)
	err := list(ctx, crds, selection, func(one crd.CRD) error {
		selected++
		if fits(one) {
			fitting = append(fitting, one)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case selected == 0:
		return nil, ErrNoneSelected
	case len(fitting) == 0:
		return nil, &NoneFitsError{Looked: selected, Selected: true}
	}
	return fitting, nil
}

// onlyFitting returns the only CRD of the cluster that fits. If there are more,
// the error lists a command for each of them, ready to paste.
func onlyFitting(ctx context.Context, crds cluster.CRDs, fits func(crd.CRD) bool, command func(name string) string) ([]crd.CRD, error) {
	var first crd.CRD
	var names []string
	all := 0
	err := list(ctx, crds, Selection{}, func(one crd.CRD) error {
		all++
		if !fits(one) {
			return nil
		}
		if len(names) == 0 {
			first = one
		}
		names = append(names, one.Name)
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case all == 0:
		return nil, errors.New("the cluster has no CustomResourceDefinitions")
	case len(names) == 0:
		return nil, &NoneFitsError{Looked: all}
	case len(names) == 1:
		return []crd.CRD{first}, nil
	}
	lines := []string{fmt.Sprintf("%d CustomResourceDefinitions fit, name one:", len(names))}
	for _, name := range names[:min(len(names), maxListed)] {
		lines = append(lines, command(name))
	}
	if more := len(names) - maxListed; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more; --all, --group and --selector choose several", more))
	}
	return nil, errors.New(strings.Join(lines, "\n"))
}

// list visits the selected CRDs by name.
func list(ctx context.Context, crds cluster.CRDs, selection Selection, visit func(crd.CRD) error) error {
	options := cluster.ListOptions{LabelSelector: selection.Selector}
	return crds.List(ctx, options, func(one *apiextensionsv1.CustomResourceDefinition) error {
		if selection.Group != "" && one.Spec.Group != selection.Group {
			return nil
		}
		return visit(crd.Live(one))
	})
}

// resolveNames returns the full names that args stand for, without repetitions,
// and those CRDs that were read on the way.
func resolveNames(ctx context.Context, crds cluster.CRDs, args []string) ([]string, map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	names := make([]string, len(args))
	found := map[string]*apiextensionsv1.CustomResourceDefinition{}
	open := false
	for i, arg := range args {
		name, err := bareName(arg)
		if err != nil {
			return nil, nil, err
		}
		names[i] = name
		full := strings.ToLower(name)
		if !strings.Contains(full, ".") {
			open = true
			continue
		}
		one, err := crds.Get(ctx, full)
		switch {
		case err == nil:
			names[i], found[full] = full, one
		case apierrors.IsNotFound(err):
			open = true
		default:
			return nil, nil, err
		}
	}
	if open {
		known, err := knownNames(ctx, crds)
		if err != nil {
			return nil, nil, err
		}
		for i, name := range names {
			if found[name] != nil {
				continue
			}
			if names[i], err = known.resolve(name); err != nil {
				return nil, nil, err
			}
		}
	}
	var distinct []string
	for _, name := range names {
		if !slices.Contains(distinct, name) {
			distinct = append(distinct, name)
		}
	}
	return distinct, found, nil
}

// bareName takes "crd/" and its longer forms off an argument.
func bareName(arg string) (string, error) {
	resource, name, hasResource := strings.Cut(arg, "/")
	if !hasResource {
		resource, name = "crd", arg
	}
	resource = strings.ToLower(resource)
	for _, suffix := range []string{".apiextensions.k8s.io", ".v1"} {
		resource = strings.TrimSuffix(resource, suffix)
	}
	switch {
	case !slices.Contains([]string{"crd", "crds", "customresourcedefinition", "customresourcedefinitions"}, resource):
		return "", fmt.Errorf("%q is not a CustomResourceDefinition: name one as plural.group, crd/plural.group, plural, kind or short name", arg)
	case name == "" || strings.Contains(name, "/"):
		return "", fmt.Errorf("%q does not name a CustomResourceDefinition", arg)
	}
	return name, nil
}

// names are the names of one CRD.
type names struct {
	full, group string
	// own are the plural, the singular and the kind, in lower case; short are the
	// short names.
	own, short []string
}

// nameIndex is the names of all CRDs of a cluster.
type nameIndex []names

// knownNames reads the names of all CRDs.
func knownNames(ctx context.Context, crds cluster.CRDs) (nameIndex, error) {
	var known nameIndex
	err := list(ctx, crds, Selection{}, func(one crd.CRD) error {
		spec := one.Spec.Names
		known = append(known, names{
			full: one.Name, group: one.Spec.Group,
			own:   []string{spec.Plural, strings.ToLower(spec.Singular), strings.ToLower(spec.Kind)},
			short: spec.ShortNames,
		})
		return nil
	})
	return known, err
}

// resolve returns the full name of the CRD that a name stands for. Short names
// count only when nothing is really called that, as in kubectl.
func (index nameIndex) resolve(name string) (string, error) {
	lower := strings.ToLower(name)
	matches := index.match(lower, func(n names) []string { return n.own })
	if len(matches) == 0 {
		matches = index.match(lower, func(n names) []string { return n.short })
	}
	switch len(matches) {
	case 0:
		return "", index.unknown(name)
	case 1:
		return matches[0], nil
	}
	more := ""
	if len(matches) > maxListed {
		more = fmt.Sprintf(" and %d more", len(matches)-maxListed)
	}
	return "", fmt.Errorf("%q is ambiguous, name one in full: %s%s",
		name, strings.Join(matches[:min(len(matches), maxListed)], ", "), more)
}

// match returns the full names of the CRDs that have a name, alone or followed
// by the group.
func (index nameIndex) match(name string, candidates func(names) []string) []string {
	var matches []string
	for _, known := range index {
		if slices.ContainsFunc(candidates(known), func(candidate string) bool {
			return name == candidate || name == candidate+"."+known.group
		}) {
			matches = append(matches, known.full)
		}
	}
	return matches
}

// UnknownError says that no CRD of the cluster has a name.
type UnknownError struct {
	// Name is the name, without "crd/".
	Name string
	// hint is what the reader may have meant.
	hint string
}

// Error names it and suggests another.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("no CustomResourceDefinition is named %q%s", e.Name, e.hint)
}

// unknown is the error for a name that no CRD has; it suggests the nearest.
func (index nameIndex) unknown(name string) error {
	if len(index) == 0 {
		return &UnknownError{name, ": the cluster has none"}
	}
	owner := map[string]string{}
	var candidates []string
	add := func(candidate, full string) {
		if _, known := owner[candidate]; !known && candidate != "" {
			owner[candidate] = full
			candidates = append(candidates, candidate)
		}
	}
	for _, known := range index {
		add(known.full, known.full)
	}
	for i := range index[0].own { // Plurals first: those of two CRDs differ more often.
		for _, known := range index {
			add(known.own[i], known.full)
		}
	}
	if nearest := lifecycle.Nearest(strings.ToLower(name), candidates); nearest != "" {
		return &UnknownError{name, fmt.Sprintf("; did you mean %s?", owner[nearest])}
	}
	return &UnknownError{name, "; kubectl crdver status lists them all"}
}

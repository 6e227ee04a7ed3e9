package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/apiversion"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/plan"
	"github.com/crdver/kubectl-crdver/pkg/source"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// versionPrefix says that an argument is a version, whatever it looks like.
const versionPrefix = "version/"

// targets resolves the arguments: the CRDs that are named, or selected, or the only
// one that has VERSION, or without it, more than one version.
func (o *usageOptions) targets(ctx context.Context, f *Factory, client cluster.Interface, args []string) ([]usage.Target, error) {
	version, names, err := splitVersion(ctx, client.CRDs(), args)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	crds, err := source.Select(ctx, client.CRDs(), names, o.selection, func(one crd.CRD) bool {
		for _, v := range one.VersionNames() {
			known[v] = true
		}
		return one.Version(version) != nil || version == "" && len(one.Spec.Versions) > 1
	}, func(name string) string { return o.again(candidate(name, version)) })
	var none *source.NoneFitsError
	switch {
	case errors.As(err, &none) && version != "" && !known[version]:
		return nil, noSuchVersion(fmt.Sprintf("none of the %d CustomResourceDefinitions has", none.Looked), version, slices.Collect(maps.Keys(known)))
	case err != nil:
		return nil, err
	}
	var targets []usage.Target
	for _, one := range crds {
		target := usage.Target{CRD: source.Slim(one), Versions: one.VersionNames()}
		if version != "" {
			target.Versions = []string{version}
			if one.Version(version) == nil {
				f.Warn(fmt.Sprintf("the CRD %s has no version %s (it has %s): looking for what is left of it",
					one.Name, version, strings.Join(one.VersionNames(), ", ")))
			}
		}
		targets = append(targets, target)
	}
	return targets, nil
}

// noVersionError says that no CRD of a cluster has a version, but those that it has.
type noVersionError struct {
	message string
	have    []string
}

func (e *noVersionError) Error() string { return e.message }

// mistyped returns an error where nothing knows the version that was asked for: no CRD
// that was looked at has it, or lists it as stored, or had it until a retirement, and
// nothing was found of it.
func mistyped(targets []usage.Target, report *v1alpha1.UsageReport) error {
	var have, names []string
	for _, target := range targets {
		version, one := target.Versions[0], target.CRD
		if len(target.Versions) != 1 || one.Version(version) != nil || slices.Contains(one.Status.StoredVersions, version) || plan.Retired(one.Annotations, version) {
			return nil
		}
		have, names = append(have, one.VersionNames()...), append(names, one.Name)
	}
	for _, item := range report.Items {
		if slices.ContainsFunc(item.Evidence, func(e v1alpha1.UsageEvidence) bool { return e.Proves != v1alpha1.ProvesCapability }) {
			return nil
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return noSuchVersion(names[0]+" does not have, and nothing names,", targets[0].Versions[0], have)
	default:
		return noSuchVersion(fmt.Sprintf("none of the %d CustomResourceDefinitions has, and nothing names,", len(names)), targets[0].Versions[0], have)
	}
}

// candidate is a target to make a command of.
func candidate(name, version string) usage.Target {
	one := usage.Target{CRD: crd.Live(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}})}
	if version != "" {
		one.Versions = []string{version}
	}
	return one
}

// splitVersion takes VERSION off the arguments [VERSION] [CRD...]. What looks like
// a version is one; any other word is only if a CRD has such a version and none has
// such a name.
func splitVersion(ctx context.Context, crds cluster.CRDs, args []string) (version string, names []string, err error) {
	if len(args) == 0 {
		return "", nil, nil
	}
	for _, arg := range args[1:] {
		if conforms(arg) || strings.HasPrefix(arg, versionPrefix) {
			return "", nil, fmt.Errorf("%q is no CRD: a version comes first, and only one", arg)
		}
	}
	first := args[0]
	if name, explicit := strings.CutPrefix(first, versionPrefix); explicit {
		return name, args[1:], nil
	}
	if conforms(first) {
		return first, args[1:], nil
	}
	if strings.ContainsAny(first, "./") { // No version has these.
		return "", args, nil
	}
	return eitherOr(ctx, crds, args)
}

// conforms tells whether a name looks like v1, v1beta1 or v1alpha1.
func conforms(name string) bool { return apiversion.Parse(name).Stability != apiversion.NonConforming }

// eitherOr finds out what a word is that may be a version or a CRD.
func eitherOr(ctx context.Context, crds cluster.CRDs, args []string) (version string, names []string, err error) {
	var having, versions []string
	err = source.Each(ctx, crds, nil, source.Selection{}, func(one crd.CRD) error {
		versions = append(versions, one.VersionNames()...)
		if one.Version(args[0]) != nil {
			having = append(having, one.Name)
		}
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	near := lifecycle.Nearest(args[0], versions)
	if len(having) == 0 && near == "" {
		return "", args, nil
	}
	named, err := source.Resolve(ctx, crds, args[:1], source.Selection{})
	switch {
	case ctx.Err() != nil:
		return "", nil, err
	case err != nil && len(having) == 0:
		return "", nil, fmt.Errorf("%w; if it is to be a version: did you mean %q?", err, near)
	case len(having) == 0:
		return "", args, nil
	case err != nil: // No CRD is called that.
		return args[0], args[1:], nil
	}
	return "", nil, fmt.Errorf("%q is the CRD %s and a version of %s: write crd/%s or %s%s",
		args[0], named[0].Name, having[0], args[0], versionPrefix, args[0])
}

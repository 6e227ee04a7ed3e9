package cmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/fleet"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/observe"
	"github.com/crdver/kubectl-crdver/pkg/plan"
	"github.com/crdver/kubectl-crdver/pkg/source"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// goingVersions are the versions that are to go.
type goingVersions struct {
	// version goes from the CRDs that names name; from all that have it, without names.
	version string
	names   []string
	// kept are the versions that stay, by CRD, where manifests say so.
	kept map[string][]string
}

// going returns what is to go.
func (o *canRemoveOptions) going(ctx context.Context, f *Factory, args []string) (goingVersions, error) {
	if !o.local() {
		return goingVersions{version: strings.TrimPrefix(args[0], versionPrefix), names: args[1:]}, nil
	}
	going := goingVersions{kept: map[string][]string{}}
	options := o.files
	_, err := source.Files{FilenameOptions: options, Stdin: f.In}.Load(ctx, func(one crd.CRD) error {
		if going.kept[one.Name] != nil {
			return fmt.Errorf("the CRD %s is in the manifests twice: %s is the second", one.Name, one.Origin)
		}
		going.kept[one.Name] = one.VersionNames()
		going.names = append(going.names, one.Name)
		return nil
	})
	return going, err
}

// of returns the versions that are to go from a CRD.
func (g goingVersions) of(one crd.CRD) []string {
	if g.kept == nil {
		return []string{g.version}
	}
	var versions []string
	// What is stored and no longer in the spec counts, too: it has no way back.
	for _, version := range append(one.VersionNames(), one.Status.StoredVersions...) {
		if !slices.Contains(g.kept[one.Name], version) && !slices.Contains(versions, version) {
			versions = append(versions, version)
		}
	}
	return versions
}

// leaving is what there is to say of one cluster.
type leaving struct {
	items []v1alpha1.CanRemoveItem
	// had are versions of the CRDs that were looked at, and those that kubectl
	// crdver removed from them.
	had []string
}

// look looks at one cluster.
func (o *canRemoveOptions) look(ctx context.Context, m member, command *cobra.Command, going goingVersions) (leaving, []string, error) {
	client, err := m.Cluster()
	if err != nil {
		return leaving{}, nil, err
	}
	crds, notFound, err := going.crds(ctx, client)
	if err != nil {
		return leaving{}, nil, err
	}
	var found leaving
	words := m.words(command)
	observer := observe.New(client)
	for _, one := range crds {
		found.had = append(found.had, one.VersionNames()...)
		found.had = append(found.had, strings.Split(one.Annotations[plan.RetiredAnnotation], ",")...)
		versions := going.of(one)
		if len(versions) == 0 {
			continue
		}
		uses, err := o.uses(ctx, m, client, usage.Target{CRD: one, Versions: versions}, words)
		if err != nil {
			return leaving{}, nil, err
		}
		state := lifecycle.New(one, observer.Observe(ctx, one, observe.Options{Objects: true, Migrations: true}))
		for _, version := range versions {
			item := state.Leave(version, uses[version], o.acceptClaims)
			for i, blocker := range item.Blockers {
				item.Blockers[i] = withWords(blocker, words)
			}
			found.items = append(found.items, item)
		}
	}
	for _, name := range notFound {
		found.items = append(found.items, v1alpha1.CanRemoveItem{
			CRD: name, Version: going.version, Verdict: v1alpha1.LeaveNotConcerned, Why: "the cluster does not have the CRD",
		})
	}
	if err := ctx.Err(); err != nil {
		return leaving{}, nil, fmt.Errorf("reading the cluster: %w", err)
	}
	return found, notFound, nil
}

// crds returns the CRDs of a cluster that a version is to go from, without their
// schemas.
func (g goingVersions) crds(ctx context.Context, client cluster.Interface) (found []crd.CRD, notFound []string, err error) {
	visit := func(one crd.CRD) error { //nolint:unparam // The signature of a visitor.
		if len(g.names) > 0 || one.Version(g.version) != nil || slices.Contains(one.Status.StoredVersions, g.version) || plan.Retired(one.Annotations, g.version) {
			found = append(found, source.Slim(one))
		}
		return nil
	}
	if len(g.names) == 0 {
		if g.kept != nil {
			return nil, nil, nil // Manifests without CRDs.
		}
		err = source.Each(ctx, client.CRDs(), nil, source.Selection{}, visit)
		return found, nil, err
	}
	_, notFound, err = withoutUnknown(g.names, 0, func(names []string) (struct{}, error) {
		found = nil
		return struct{}{}, source.Each(ctx, client.CRDs(), names, source.Selection{}, visit)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the CRDs: %w", err)
	}
	return found, notFound, nil
}

// uses looks for who uses the versions of a CRD.
func (o *canRemoveOptions) uses(
	ctx context.Context, m member, client cluster.Interface, target usage.Target, words []string,
) (map[string]*v1alpha1.VersionUsage, error) {
	if o.skipUsage {
		return nil, nil
	}
	looking := usageOptions{window: o.window, sources: usageSources{helm: o.helm, skip: o.skip}, connection: words}
	looking.sources.requests.skipMetrics = slices.Contains(o.skip, string(v1alpha1.UsageMetrics))
	report, err := looking.report(ctx, m.Factory, client, []usage.Target{target})
	if err != nil {
		return nil, err
	}
	uses := map[string]*v1alpha1.VersionUsage{}
	for i := range report.Items {
		uses[report.Items[i].Version] = &report.Items[i]
	}
	return uses, nil
}

// withWords makes the commands of a blocker lead to the cluster.
func withWords(blocker v1alpha1.Blocker, words []string) v1alpha1.Blocker {
	const own = "kubectl crdver "
	if strings.HasPrefix(blocker.Resolve, own) {
		blocker.Resolve = strings.Join(append([]string{blocker.Resolve}, words...), " ")
	}
	return blocker
}

// mistyped returns an error where no cluster has, or had, the version, and some
// have one whose name is like it: "not concerned" would be the answer to another
// question.
func (g goingVersions) mistyped(answers []answer[leaving]) error {
	if g.kept != nil {
		return nil
	}
	var had []string
	items := 0
	for _, one := range answers {
		had = append(had, one.value.had...)
		items += len(one.value.items)
		for _, item := range one.value.items {
			if item.Verdict != v1alpha1.LeaveNotConcerned {
				return nil
			}
		}
	}
	if err := failure(answers); err != nil { // No cluster has the CRD.
		return err
	}
	if slices.Contains(had, g.version) {
		return nil
	}
	switch near := lifecycle.Nearest(g.version, had); {
	case near != "":
		return fmt.Errorf("%s a version %q; did you mean %q?", noneHas(len(answers)), g.version, near)
	case items == 0:
		return fmt.Errorf("%s a version %q; kubectl crdver status shows what there is", noneHas(len(answers)), g.version)
	}
	return nil
}

// current makes the flags choose the context that is in use.
func (o *fleetFlags) current(f *Factory) error {
	name, err := f.Context()
	if err != nil {
		return err
	}
	if _, err := f.RESTConfig(); err != nil {
		return err
	}
	// Without a context it is --server, or the cluster that this runs in.
	o.only = &fleet.Member{Name: cmp.Or(name, *f.ConfigFlags.APIServer, "in-cluster"), Context: name}
	return nil
}

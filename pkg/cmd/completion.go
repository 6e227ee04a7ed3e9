package cmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/crdver/kubectl-crdver/pkg/apiversion"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// completionTimeout bounds what pressing the tab key may cost.
const completionTimeout = 2 * time.Second

// completionFunc is the type of the functions that complete arguments.
type completionFunc = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective)

// completeVersionThenCRDs completes the arguments VERSION [CRD...]: first the
// versions of the cluster's CRDs, highest priority first, then the CRDs that
// have that version.
func completeVersionThenCRDs(f *Factory) completionFunc {
	return func(command *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
		defer cancel()
		client, err := f.Cluster()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		crds := crdsByVersion(ctx, client.CRDs())
		if len(args) > 0 {
			return withPrefix(without(crds[args[0]], args[1:]), toComplete), cobra.ShellCompDirectiveNoFileComp
		}
		var versions []cobra.Completion
		for _, version := range apiversion.Sorted(withPrefix(slices.Collect(maps.Keys(crds)), toComplete)) {
			versions = append(versions, cobra.CompletionWithDesc(version, describeCRDs(crds[version])))
		}
		return versions, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeCRDs completes the arguments [CRD...].
func completeCRDs(f *Factory) completionFunc {
	return func(command *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
		defer cancel()
		client, err := f.Cluster()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return withPrefix(without(crdNames(ctx, client), args), toComplete), cobra.ShellCompDirectiveNoFileComp
	}
}

// crdsByVersion returns the names of the CRDs that have a version, served or
// not. When the list fails half way, or takes too long, it returns what it has:
// a few choices are better than none.
func crdsByVersion(ctx context.Context, crds cluster.CRDs) map[string][]string {
	names := map[string][]string{}
	_ = crds.List(ctx, cluster.ListOptions{}, func(crd *apiextensionsv1.CustomResourceDefinition) error {
		for _, version := range crd.Spec.Versions {
			names[version.Name] = append(names[version.Name], crd.Name)
		}
		return nil
	})
	return names
}

// crdNames returns the names of the CRDs, read without their schemas. Like
// crdsByVersion, it returns what it has.
func crdNames(ctx context.Context, client cluster.Interface) []string {
	return names(ctx, client, apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
}

// names returns the names of the objects of a resource, or of those that were read
// before an error.
func names(ctx context.Context, client cluster.Interface, resource schema.GroupVersionResource) []string {
	var found []string
	objects := client.Objects(resource)
	page := cluster.PageOptions{Limit: 500}
	for {
		list, err := objects.ListMetadata(ctx, page)
		if err != nil {
			return found
		}
		for _, object := range list.Items {
			found = append(found, object.Name)
		}
		if page.Continue = list.Continue; page.Continue == "" {
			return found
		}
	}
}

// describeCRDs says which CRDs a version belongs to.
func describeCRDs(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%d CRDs", len(names))
}

// without returns the values that are not among those already given.
func without(values, given []string) []string {
	return slices.DeleteFunc(slices.Clone(values), func(value string) bool { return slices.Contains(given, value) })
}

// completeFlag makes the shell offer values for one flag of command. It does
// nothing when the command has no such flag.
func completeFlag(command *cobra.Command, flag string, values ...string) {
	if command.Flag(flag) == nil {
		return
	}
	// The only other error is a second registration, a mistake that the test
	// of all flags finds.
	_ = command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completeDryRunFlag makes the shell offer the values of --dry-run.
func completeDryRunFlag(command *cobra.Command) {
	completeFlag(command, "dry-run", "none", "client", "server")
}

// completeConnectionFlags makes the shell offer the contexts, clusters and
// users of the kubeconfig. A kubeconfig that cannot be read offers nothing.
func completeConnectionFlags(root *cobra.Command, f *Factory) {
	register := func(flag string, names func(clientcmdapi.Config) []string) {
		// As in completeFlag: the flags exist and are registered once.
		_ = root.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
			raw, err := f.ConfigFlags.ToRawKubeConfigLoader().RawConfig()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return withPrefix(names(raw), toComplete), cobra.ShellCompDirectiveNoFileComp
		})
	}
	register("context", func(raw clientcmdapi.Config) []string { return slices.Collect(maps.Keys(raw.Contexts)) })
	register("cluster", func(raw clientcmdapi.Config) []string { return slices.Collect(maps.Keys(raw.Clusters)) })
	register("user", func(raw clientcmdapi.Config) []string { return slices.Collect(maps.Keys(raw.AuthInfos)) })
}

// withPrefix returns the sorted values that start with prefix, ready for a
// shell: one line each.
func withPrefix(values []string, prefix string) []string {
	values = slices.DeleteFunc(values, func(value string) bool {
		return !strings.HasPrefix(value, prefix) || strings.ContainsAny(value, "\n\t")
	})
	slices.Sort(values)
	return slices.Compact(values)
}

package cmd

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apiversion"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
)

// flagValues are the flags, of any command, whose values the cluster knows.
func flagValues() map[string]func(context.Context, cluster.Interface) []string {
	versions := func(ctx context.Context, client cluster.Interface) []string {
		return apiversion.Sorted(slices.Collect(maps.Keys(crdsByVersion(ctx, client.CRDs()))))
	}
	namespaces := func(ctx context.Context, client cluster.Interface) []string {
		return names(ctx, client, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	}
	groups := func(ctx context.Context, client cluster.Interface) []string {
		var groups []string
		for _, name := range crdNames(ctx, client) {
			_, group, _ := strings.Cut(name, ".")
			groups = append(groups, group)
		}
		slices.Sort(groups)
		return slices.Compact(groups)
	}
	return map[string]func(context.Context, cluster.Interface) []string{
		"from": versions, "to": versions, "at": versions, "replacement": versions, "refused-through": versions,
		"namespace": namespaces, "job-namespace": namespaces, "namespaces-first": namespaces,
		"group": groups,
	}
}

// freeText are the flags whose values are no files, and that nobody knows beforehand.
func freeText() []string {
	return []string{
		"allow-loss", "as", "as-group", "as-uid", "as-user-extra", "field-manager", "image", "message", "proxy-url", "request-timeout", "selector",
		"server", "shard", "sort-by", "tls-server-name", "token", "url",
	}
}

// completeRest makes the shell offer what fits where a flag has no completion of its
// own: files are only offered where a file is asked for.
func completeRest(f *Factory, command *cobra.Command, flags *pflag.FlagSet) {
	known, free := flagValues(), freeText()
	flags.VisitAll(func(flag *pflag.Flag) {
		if _, found := command.GetFlagCompletionFunc(flag.Name); found {
			return
		}
		values := known[flag.Name]
		text := strings.HasPrefix(flag.Value.Type(), "string")
		if text && values == nil && !slices.Contains(free, flag.Name) {
			return // A file.
		}
		// As in completeFlag: the flag exists and is registered once.
		_ = command.RegisterFlagCompletionFunc(flag.Name, func(command *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if values == nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
			defer cancel()
			client, err := f.Cluster()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var fitting []cobra.Completion
			for _, value := range values(ctx, client) {
				if strings.HasPrefix(value, toComplete) && !strings.ContainsAny(value, "\n\t") {
					fitting = append(fitting, value)
				}
			}
			return fitting, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		})
	})
}

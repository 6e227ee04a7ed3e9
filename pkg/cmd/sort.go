package cmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/apiversion"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/observe"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

// maxVersionNames bounds what --versions - reads.
const maxVersionNames = 1 << 20

const sortLong = `Show the versions of CRDs in the order of the API server, highest priority first.

GA comes before beta before alpha, then the major number decides, then the one
after "beta" or "alpha"; names that are not like v1, v1beta1 or v1alpha1 come
last, in alphabetical order. The order in spec.versions, and deprecation, do not
count. DEFAULT is the version that kubectl uses when none is named: the first one
that is served. What the server's discovery says is compared with it.

-o wide adds each version's place in the server's discovery (in /apis/GROUP, and
in the aggregated document) and the rule that put it before the next one.` + fleetHelp

const sortExample = `  # All CRDs of the cluster
  kubectl crdver sort

  # One CRD, by any of its names, with the reasons for the order
  kubectl crdver sort crontabs -o wide

  # The CRDs of manifests
  kubectl crdver sort -f crds/ -R
  helm template ./chart | kubectl crdver sort -f -

  # Version names without a CRD
  kubectl crdver sort --versions v10,foo1,v2,v11beta2
  git branch --list 'v*' --format '%(refname:short)' | kubectl crdver sort --versions -

  # The version that kubectl uses
  kubectl crdver sort crontabs -o jsonpath='{.items[?(@.kubectlDefault)].name}'`

type sortOptions struct {
	read     readFlags
	fleet    fleetFlags
	print    *printers.Flags
	versions string
	reverse  bool
}

func newSortCommand(f *Factory) *cobra.Command {
	o := sortOptions{print: printers.NewFlags()}
	command := &cobra.Command{
		Use:               "sort [CRD...]",
		Short:             "Show the versions of CRDs, highest priority first",
		Long:              sortLong,
		Example:           sortExample,
		ValidArgsFunction: completeCRDs(f),
		RunE:              func(command *cobra.Command, args []string) error { return o.run(f, command, args) },
	}
	flags := command.Flags()
	flags.StringVar(&o.versions, "versions", "", "Version names to sort instead of those of CRDs, separated by commas or blanks; - reads them from standard input")
	flags.BoolVar(&o.reverse, "reverse", false, "Show the lowest priority first")
	o.read.add(command)
	o.fleet.add(f, command)
	o.print.AddFlags(command)
	for _, other := range append([]string{"filename", "kustomize", "recursive", "selector"}, fleetFlagNames()...) {
		command.MarkFlagsMutuallyExclusive("versions", other)
	}
	completeFlag(command, "output", o.print.Formats()...)
	return command
}

func (o *sortOptions) run(f *Factory, command *cobra.Command, args []string) error {
	printer, err := printerOf(command, o.print)
	if err != nil {
		return err
	}
	if err := firstError(o.read.validate(command, args), o.read.checkFleet(command, &o.fleet)); err != nil {
		return err
	}
	bare := command.Flags().Changed("versions")
	if bare && len(args) > 0 {
		return UsageErrorf(command, "--versions sorts bare names, without the CRD %q", args[0])
	}
	r := reading{Factory: f, flags: o.read, args: args, look: observe.Options{Discovery: true}}
	if o.fleet.given(command) {
		return o.runFleet(f, command, r, printer)
	}
	var items []v1alpha1.Version
	if bare {
		items, err = o.bare(command, f)
	} else {
		items, err = o.crds(command.Context(), r)
	}
	if err != nil {
		return err
	}
	if err := printers.SortBy(items, printer.SortBy()); err != nil {
		return UsageError(command, err)
	}
	if err := printer.Print(f.Out, versionsDocument(items, bare)); err != nil {
		return err
	}
	r.noteEmpty(len(items))
	return nil
}

// bare returns the names of --versions.
func (o *sortOptions) bare(command *cobra.Command, f *Factory) ([]v1alpha1.Version, error) {
	text := o.versions
	if text == "-" {
		read, err := io.ReadAll(io.LimitReader(f.In, maxVersionNames+1))
		if err != nil {
			return nil, fmt.Errorf("reading version names: %w", err)
		}
		if len(read) > maxVersionNames {
			return nil, fmt.Errorf("more than %d MiB of version names: sort them in parts", maxVersionNames>>20)
		}
		text = string(read)
	}
	names := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if len(names) == 0 {
		return nil, UsageErrorf(command, "--versions has no names")
	}
	items := bareItems(names)
	for i := 1; i < len(items); i++ {
		if first, second := items[i-1].Name, items[i].Name; apiversion.Tie(first, second) {
			f.Warn(fmt.Sprintf("%s and %s have the same priority: which one the API server puts first is undefined", first, second))
		}
	}
	if o.reverse {
		slices.Reverse(items)
	}
	return items, nil
}

// crds returns the versions of the CRDs.
func (o *sortOptions) crds(ctx context.Context, r reading) ([]v1alpha1.Version, error) {
	type sorted struct {
		items    []v1alpha1.Version
		warnings []string
	}
	named := r.flags.local() || len(r.args) > 0
	found, err := read(ctx, r, func(s lifecycle.State) sorted {
		return sorted{versionItems(s), warningsOf(s, named)}
	})
	if err != nil {
		return nil, err
	}
	items := []v1alpha1.Version{}
	for _, one := range found {
		if o.reverse {
			slices.Reverse(one.items)
		}
		items = append(items, one.items...)
		for _, warning := range one.warnings {
			r.Warn(warning)
		}
	}
	return items, nil
}

// versionsDocument returns the answer in all its forms.
func versionsDocument(items []v1alpha1.Version, bare bool) printers.Document {
	document := printers.Document{
		Object: &v1alpha1.VersionList{TypeMeta: typeMeta(v1alpha1.KindVersionList), Items: items},
		Table:  versionsTable(items),
	}
	if bare {
		document.Table = bareTable(items)
	}
	for _, item := range items {
		document.Items = append(document.Items, item)
		if bare {
			document.Names = append(document.Names, item.Name)
		} else {
			document.Names = append(document.Names, crdName(item.CRD))
		}
	}
	return document
}

func versionsTable(items []v1alpha1.Version) printers.Table {
	table := printers.Table{Columns: []printers.Column{
		{Header: "NAME"}, {Header: "VERSION"}, {Header: "PRIORITY"}, {Header: "STABILITY"}, {Header: "SERVED"}, {Header: "STORAGE"},
		{Header: "STORED"}, {Header: "DEPRECATED"}, {Header: "DEFAULT"},
		{Header: "DISCOVERY", Wide: true}, {Header: "ORIGIN", Wide: true}, {Header: "WHY", Wide: true},
	}}
	for _, item := range items {
		table.Rows = append(table.Rows, []string{
			item.CRD, item.Name, fmt.Sprint(item.Priority), item.Stability, printers.Bool(item.Served), printers.Bool(item.Storage),
			printers.Bool(item.Stored), printers.Bool(item.Deprecated), printers.Bool(&item.KubectlDefault),
			discoveryPlace(item), item.Origin, item.Why,
		})
	}
	return table
}

// discoveryPlace returns the version's place in discovery: one number where the
// documents agree, "GROUP/AGGREGATED" where they do not.
func discoveryPlace(item v1alpha1.Version) string {
	place := func(priority int) string {
		if priority == 0 {
			return "-"
		}
		return fmt.Sprint(priority)
	}
	switch group, aggregated := item.GroupPriority, item.AggregatedPriority; {
	case group == 0 && aggregated == 0:
		return printers.None
	case group == aggregated, aggregated == 0 && item.DiscoveryProblem == "":
		return place(group)
	default:
		return place(group) + "/" + place(aggregated)
	}
}

func bareTable(items []v1alpha1.Version) printers.Table {
	table := printers.Table{Columns: []printers.Column{
		{Header: "VERSION"}, {Header: "PRIORITY"}, {Header: "STABILITY"}, {Header: "WHY", Wide: true},
	}}
	for _, item := range items {
		table.Rows = append(table.Rows, []string{item.Name, fmt.Sprint(item.Priority), item.Stability, item.Why})
	}
	return table
}

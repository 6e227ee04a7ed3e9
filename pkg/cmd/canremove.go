package cmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/printers"
	"github.com/crdver/kubectl-crdver/pkg/source"
)

const canRemoveLong = `Say whether a version may leave the manifest of a CRD: on each of the clusters,
whether objects are still stored at it, whether it is served, and who uses it.

Whoever applies a manifest without the version removes it at once. The rule of the
Kubernetes documentation: a version may leave the manifest only when every cluster
that served it has migrated its objects and trimmed status.storedVersions.

  clear          not stored (with a proof), not served, not in use, and no
                 managedFields name it, which would break server-side apply
  blocked        something stands in the way; what resolves it is listed
  not concerned  the cluster does not have the CRD, or no longer the version
  unknown        the cluster could not be asked

It counts as proof that kubectl crdver trimmed status.storedVersions, which it does
after a complete verify pass only, or that there are no objects. That the list does
not name the version is a claim; --accept-claims believes it where nothing speaks
against it.

With -f the versions are those that the clusters' CRDs have and the new manifests
have not.

Nothing is written. The exit code is 0 only if every cluster is clear or not
concerned, 2 if one is blocked, and 1 if one could not be asked.` + fleetHelp

const canRemoveExample = `  # May v1beta1 leave the manifest, as far as these clusters are concerned?
  kubectl crdver can-remove v1beta1 crontabs.example.com --contexts 'prod-*'

  # All clusters that there are kubeconfigs of
  kubectl crdver can-remove v1beta1 crontabs.example.com --kubeconfig-dir ~/clusters

  # What the next release leaves out, before it is released
  helm template ./chart --include-crds | kubectl crdver can-remove -f - --all-contexts

  # The cluster of the current context
  kubectl crdver can-remove v1beta1 crontabs.example.com`

type canRemoveOptions struct {
	files        resource.FilenameOptions
	fleet        fleetFlags
	window       time.Duration
	skip         []string
	skipUsage    bool
	helm         bool
	acceptClaims bool
	print        *printers.Flags
}

func newCanRemoveCommand(f *Factory) *cobra.Command {
	o := canRemoveOptions{print: printers.NewFlags()}
	command := &cobra.Command{
		Use:               "can-remove [VERSION [CRD...]]",
		Short:             "Say whether a version may leave the manifest, on each cluster",
		Long:              canRemoveLong,
		Example:           canRemoveExample,
		ValidArgsFunction: completeVersionThenCRDs(f),
		RunE:              func(command *cobra.Command, args []string) error { return o.run(f, command, args) },
	}
	source.AddFlags(command, &o.files, "the CRDs without the versions that are to go")
	flags := command.Flags()
	flags.DurationVar(&o.window, "usage-window", defaultUsageWindow, "How old a request may be to count as use")
	flags.BoolVar(&o.helm, "helm", false, "Look for use in the releases of Helm, too, which are Secrets")
	flags.StringSliceVar(&o.skip, "skip", nil, "Do not look for use at these sources, as owner-reference, which reads the metadata of all objects of the cluster")
	flags.BoolVar(&o.skipUsage, "skip-usage", false, "Do not look for use at all")
	flags.BoolVar(&o.acceptClaims, "accept-claims", false, "Take status.storedVersions at its word where nothing speaks against it")
	AddTimeoutFlag(command, "Give up after this time")
	o.fleet.add(f, command)
	o.print.AddFlags(command)
	completeFlag(command, "skip", (&usageSources{}).names()...)
	completeFlag(command, "output", o.print.Formats()...)
	return command
}

// local reports whether manifests say which versions go.
func (o *canRemoveOptions) local() bool { return o.files.RequireFilenameOrKustomize() == nil }

func (o *canRemoveOptions) check(command *cobra.Command, args []string) error {
	if err := checkFiles(command, o.files); err != nil {
		return err
	}
	for i, arg := range args {
		switch {
		case arg == "":
			return UsageErrorf(command, "an argument is empty: name a version or a CRD")
		case i > 0 && (conforms(arg) || strings.HasPrefix(arg, versionPrefix)):
			return UsageErrorf(command, "%q is no CRD: a version comes first, and only one", arg)
		}
	}
	switch {
	case o.local() && len(args) > 0:
		return UsageErrorf(command, "the manifests say which versions go: leave out %q, or -f and -k", args[0])
	case !o.local() && len(args) == 0:
		return UsageErrorf(command, "name the version that is to go, or manifests without it with -f")
	case o.window <= 0:
		return UsageErrorf(command, "--usage-window %s: it must be longer than 0", o.window)
	case o.skipUsage && (o.helm || len(o.skip) > 0):
		return UsageErrorf(command, "--skip-usage looks for no use at all: leave out --helm and --skip")
	}
	usage := usageSources{skip: o.skip}
	return firstError(o.fleet.check(command), usage.check(command))
}

func (o *canRemoveOptions) run(f *Factory, command *cobra.Command, args []string) error {
	printer, err := printerOf(command, o.print)
	if err != nil {
		return err
	}
	if err := o.check(command, args); err != nil {
		return err
	}
	ctx := command.Context()
	going, err := o.going(ctx, f, args)
	if err != nil {
		return err
	}
	choose := o.fleet
	if !choose.given(command) {
		if err := choose.current(f); err != nil {
			return err
		}
	}
	answers, err := ask(ctx, f, &choose, 0, func(ctx context.Context, m member) (leaving, []string, error) {
		return o.look(ctx, m, command, going)
	})
	if err != nil {
		return err
	}
	report, err := canRemoveReport(answers, going)
	if err != nil {
		return err
	}
	if err := printers.SortBy(report.Items, printer.SortBy()); err != nil {
		return UsageError(command, err)
	}
	if err := printer.Print(f.Out, canRemoveDocument(report, printer)); err != nil {
		return err
	}
	if err := failure(answers); err != nil && report.Summary.Unknown > 0 {
		return err
	}
	if report.Verdict == v1alpha1.LeaveBlocked {
		return Pending()
	}
	return nil
}

// canRemoveDocument returns the report in all its forms.
func canRemoveDocument(report *v1alpha1.CanRemoveReport, printer *printers.Printer) printers.Document {
	document := printers.Document{
		Object: report,
		Text:   func(w io.Writer, _ bool) error { return printers.WriteCanRemove(w, report, printer.TableOptions()) },
	}
	for _, item := range report.Items {
		document.Items = append(document.Items, item)
		if item.Verdict == v1alpha1.LeaveBlocked {
			document.Names = append(document.Names, crdName(item.CRD))
		}
	}
	return document
}

// canRemoveReport puts the clusters together. Every one of them has to be clear.
func canRemoveReport(answers []answer[leaving], going goingVersions) (*v1alpha1.CanRemoveReport, error) {
	report := &v1alpha1.CanRemoveReport{
		TypeMeta: typeMeta(v1alpha1.KindCanRemoveReport), Clusters: []v1alpha1.FleetCluster{}, Items: []v1alpha1.CanRemoveItem{},
	}
	for _, one := range answers {
		report.Clusters = append(report.Clusters, one.FleetCluster)
		if one.SameAs != "" {
			continue
		}
		report.Summary.Clusters++
		worst := v1alpha1.LeaveNotConcerned
		if one.err != nil {
			worst = v1alpha1.LeaveUnknown
		}
		for _, item := range one.value.items {
			item.Context = one.Context
			report.Items = append(report.Items, item)
			switch {
			case item.Verdict == v1alpha1.LeaveBlocked, item.Verdict == v1alpha1.LeaveClear && worst == v1alpha1.LeaveNotConcerned:
				worst = item.Verdict
			}
		}
		switch worst {
		case v1alpha1.LeaveClear:
			report.Summary.Clear++
		case v1alpha1.LeaveBlocked:
			report.Summary.Blocked++
		case v1alpha1.LeaveNotConcerned:
			report.Summary.NotConcerned++
		case v1alpha1.LeaveUnknown:
			report.Summary.Unknown++
		}
	}
	if err := going.mistyped(answers); err != nil && report.Summary.Unknown == 0 {
		return nil, err
	}
	report.Verdict, report.Why = leaveVerdict(report.Summary)
	return report, nil
}

// leaveVerdict says what the clusters come to together.
func leaveVerdict(s v1alpha1.CanRemoveSummary) (v1alpha1.LeaveVerdict, string) {
	var counts []string
	for _, count := range []struct {
		n    int
		what string
	}{{s.Clear, "clear"}, {s.Blocked, "blocked"}, {s.NotConcerned, "not concerned"}, {s.Unknown, "unknown"}} {
		if count.n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", count.n, count.what))
		}
	}
	why := fmt.Sprintf("%s: %s", english.Plural(s.Clusters, "cluster"), strings.Join(counts, ", "))
	switch {
	case s.Blocked > 0:
		return v1alpha1.LeaveBlocked, why
	case s.Unknown > 0:
		return v1alpha1.LeaveUnknown, why
	case s.Clear > 0:
		return v1alpha1.LeaveClear, why
	}
	return v1alpha1.LeaveNotConcerned, why
}

package cmd

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/printers"
	"github.com/crdver/kubectl-crdver/pkg/source"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

const usageLong = `Show who still uses a version: a table of evidence, each row with its source and
how much it proves, and a verdict.

  in use                somebody used it within --usage-window, or something that
                        acts by itself names it
  probably unused       what there is, is older, or a record of the past; or a
                        source that would tell could not be looked at
  no evidence of use    all that tells was looked at, and there is nothing

There is no verdict "unused": nobody can look everywhere. What was not looked at
is listed, with the command that would.

The sources are the managedFields of the live objects (managers that have since
moved on to another version are marked stale), the annotation of kubectl apply,
ownerReferences in the whole cluster, Argo CD, Flux, HorizontalPodAutoscalers,
admission webhooks and policies, and who could write the objects (RBAC, a
capability and no use). --helm looks into the releases of Helm, which are Secrets.
The metrics of the API servers count requests since a server started, without
saying who; --watch 10m takes the difference over a time, which is what counts.
--audit-log reads audit logs, which name user, user agent and address of each request.
--filename looks through manifests in files, as in a repository: templates and embedded
manifests, too. With --crd that needs no cluster, and without it, if the CRD is among
the files and there is no cluster, or none that has it. --fix rewrites their apiVersion, and
nothing else, if the conversion strategy is None and the other version takes the manifest
as it is; it prints no table, and exits with 2 if it has to leave something.
What cannot be read for want of rights is named, and the rest is shown.

managedFields tell of writes that changed something. Who only reads, or writes
what is there already, leaves no trace in objects.

Without VERSION, all versions of the CRD are looked at. The first argument is
VERSION if it looks like one (v1, v1beta1) or is the name of a version and of no CRD;
version/NAME and crd/NAME leave no doubt.

Nothing is written to the cluster. The exit code is 2 while a version is in use.` + fleetHelp

const usageExample = `  # Who still uses v1beta1
  kubectl crdver usage v1beta1 crontabs.example.com

  # All versions, with notes and the names of objects
  kubectl crdver usage crontabs.example.com -o wide

  # Helm releases, too, which takes the right to read Secrets
  kubectl crdver usage v1beta1 crontabs.example.com --helm

  # Who makes requests, from audit logs (also gzip, rotated, or from a pipe)
  kubectl crdver usage v1beta1 crontabs.example.com --audit-log /var/log/kubernetes/audit

  # Whether anybody makes requests in the next ten minutes
  kubectl crdver usage v1beta1 crontabs.example.com --watch 10m

  # Which manifests of a repository name it, and where; then move them to v1
  kubectl crdver usage v1beta1 crontabs.example.com -f deploy/
  kubectl crdver usage v1beta1 crontabs.example.com -f deploy/ --fix --to v1 --dry-run

  # In a script: 0 if nothing uses it, 2 while something does
  kubectl crdver usage v1beta1 crontabs.example.com --usage-window 168h -o name`

// defaultUsageWindow is how old a request may be to count as use.
const defaultUsageWindow = 24 * time.Hour

type usageOptions struct {
	fleet     fleetFlags
	selection source.Selection
	sources   usageSources
	window    time.Duration
	print     *printers.Flags
	// connection are the connection flags as they were typed.
	connection []string
}

func newUsageCommand(f *Factory) *cobra.Command {
	o := usageOptions{print: printers.NewFlags()}
	command := &cobra.Command{
		Use:               "usage [VERSION] [CRD...]",
		Short:             "Show who still uses a version",
		Long:              usageLong,
		Example:           usageExample,
		ValidArgsFunction: completeVersionThenCRDs(f),
		RunE:              func(command *cobra.Command, args []string) error { return o.run(f, command, args) },
	}
	selectionFlags(command, &o.selection)
	o.sources.add(command)
	command.Flags().DurationVar(&o.window, "usage-window", defaultUsageWindow, "How old a request may be to count as use")
	AddTimeoutFlag(command, "Give up after this time")
	o.fleet.add(f, command)
	o.print.AddFlags(command)
	completeFlag(command, "output", o.print.Formats()...)
	return command
}

func (o *usageOptions) run(f *Factory, command *cobra.Command, args []string) error {
	printer, err := printerOf(command, o.print)
	if err != nil {
		return err
	}
	if err := o.check(command, args); err != nil {
		return err
	}
	if o.fleet.given(command) {
		return o.runFleet(f, command, args, printer)
	}
	o.connection = connectionWords(command)
	report, err := o.look(command.Context(), f, args)
	if report == nil || err != nil {
		return err
	}
	for _, item := range report.Items {
		if err := printers.SortBy(item.Evidence, printer.SortBy()); err != nil {
			return UsageError(command, err)
		}
	}
	if err := printer.Print(f.Out, usageDocument(report, printer)); err != nil {
		return err
	}
	if slices.ContainsFunc(report.Items, func(item v1alpha1.VersionUsage) bool { return item.Verdict == v1alpha1.UsageInUse }) {
		return Pending()
	}
	return o.sources.requests.cutShort
}

// look returns the report, or nil where manifests are rewritten instead.
func (o *usageOptions) look(ctx context.Context, f *Factory, args []string) (*v1alpha1.UsageReport, error) {
	manifests := &o.sources.manifests
	client, targets, err := o.find(ctx, f, args)
	switch {
	case err != nil:
		return nil, err
	case manifests.fix:
		return nil, o.fixManifests(ctx, f, targets)
	case manifests.offline != "":
		return o.reportOfFiles(ctx, f, targets)
	}
	report, err := o.report(ctx, f, client, targets)
	if err != nil {
		return nil, err
	}
	return report, mistyped(targets, report)
}

// find resolves the arguments: with the CRD of --crd, with those of the cluster, or
// where that has none to offer, with those among the files of --filename.
func (o *usageOptions) find(ctx context.Context, f *Factory, args []string) (cluster.Interface, []usage.Target, error) {
	manifests := &o.sources.manifests
	if manifests.crd != "" {
		targets, err := manifests.targets(ctx, f, args)
		return nil, targets, err
	}
	client, err := f.Cluster()
	var targets []usage.Target
	if err == nil {
		targets, err = o.targets(ctx, f, client, args)
	}
	if err != nil && o.mayBeAmong(err, args) {
		targets, err = manifests.among(ctx, f, args, err)
	}
	return client, targets, err
}

func (o *usageOptions) check(command *cobra.Command, args []string) error {
	if o.window <= 0 {
		return UsageErrorf(command, "--usage-window %s: it must be longer than 0", o.window)
	}
	if _, err := labels.Parse(o.selection.Selector); err != nil {
		return UsageErrorf(command, "invalid --selector %q: %w", o.selection.Selector, err)
	}
	if slices.Contains(args, "") {
		return UsageErrorf(command, "an argument is empty: name a version or a CRD")
	}
	return firstError(o.sources.check(command), o.checkFleet(command, args))
}

// report looks at all sources.
func (o *usageOptions) report(ctx context.Context, f *Factory, client cluster.Interface, targets []usage.Target) (*v1alpha1.UsageReport, error) {
	collectors, notLooked := o.sources.collectors(client, targets)
	files, err := o.sources.manifests.look(ctx, f, targets)
	if err != nil {
		return nil, err
	}
	collectors = append(collectors, files...)
	ctx, looking, err := o.sources.requests.collect(ctx, f, client, o.window, targets, collectors)
	if err != nil {
		return nil, err
	}
	report, err := usage.Report(ctx, looking, targets, usage.Options{Window: o.window, Now: now, NotLooked: notLooked}, o.again)
	if err != nil {
		return nil, err
	}
	report.TypeMeta = typeMeta(v1alpha1.KindUsageReport)
	return report, nil
}

// again returns this command for one target.
func (o *usageOptions) again(target usage.Target) string {
	words := []string{"kubectl", "crdver", "usage"}
	if len(target.Versions) == 1 {
		words = append(words, shellQuote(target.Versions[0]))
	}
	words = append(words, shellQuote(target.CRD.Name))
	words = append(words, o.sources.words()...)
	return strings.Join(append(words, o.connection...), " ")
}

// usageDocument returns the report in all its forms.
func usageDocument(report *v1alpha1.UsageReport, printer *printers.Printer) printers.Document {
	document := printers.Document{
		Object: report,
		Text:   func(w io.Writer, _ bool) error { return printers.WriteUsage(w, report, printer.TableOptions()) },
	}
	for _, item := range report.Items {
		for _, evidence := range item.Evidence {
			document.Items = append(document.Items, usageRow{CRD: item.CRD, UsageEvidence: evidence})
		}
		if item.Verdict == v1alpha1.UsageInUse {
			document.Names = append(document.Names, crdName(item.CRD))
		}
	}
	return document
}

// usageRow is what custom columns show a line for.
type usageRow struct {
	CRD string `json:"crd"`
	v1alpha1.UsageEvidence
}

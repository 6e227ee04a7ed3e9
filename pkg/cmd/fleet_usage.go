package cmd

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/printers"
	"github.com/crdver/kubectl-crdver/pkg/source"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// checkFleet makes sure that the same is asked of all clusters: which CRDs they
// have, and what fits there, differs.
func (o *usageOptions) checkFleet(command *cobra.Command, args []string) error {
	if err := o.fleet.check(command); err != nil || !o.fleet.given(command) {
		return err
	}
	selected := !o.selection.Empty()
	switch named := len(args) - versionArgs(args); {
	case len(o.sources.requests.auditLogs) > 0:
		return UsageErrorf(command, "--audit-log is the log of one cluster, and %s asks several: leave one of them out", o.fleet.name(command))
	case len(o.sources.manifests.files) > 0:
		return UsageErrorf(command, "--filename looks into files, which are the same for all clusters: leave %s out", o.fleet.name(command))
	case named == 0 && !selected:
		return UsageErrorf(command, "clusters have different CRDs: name those that are meant, or choose them with --all, --group or --selector")
	}
	return nil
}

// versionArgs is how many of the arguments [VERSION] [CRD...] are a version. Of many
// clusters a word that is no version by its looks is always a CRD: on one of them it
// might be the one, and on another the other.
func versionArgs(args []string) int {
	if len(args) > 0 && (conforms(args[0]) || strings.HasPrefix(args[0], versionPrefix)) {
		return 1
	}
	return 0
}

// crdArgs marks the arguments that are CRDs as such.
func crdArgs(args []string) []string {
	args = slices.Clone(args)
	for i := versionArgs(args); i < len(args); i++ {
		if !strings.Contains(args[i], "/") {
			args[i] = "crd/" + args[i]
		}
	}
	return args
}

// targetsOn returns the targets on one of several clusters; none where nothing
// fits there.
func (o *usageOptions) targetsOn(ctx context.Context, m member, client cluster.Interface, args []string, have func(versions []string)) ([]usage.Target, []string, error) {
	args = crdArgs(args)
	return withoutUnknown(args, versionArgs(args), func(args []string) ([]usage.Target, error) {
		targets, err := o.targets(ctx, m.Factory, client, args)
		none, version := (*source.NoneFitsError)(nil), (*noVersionError)(nil)
		if errors.As(err, &version) {
			have(version.have)
			return nil, nil
		}
		if errors.As(err, &none) || errors.Is(err, source.ErrNoneSelected) {
			return nil, nil
		}
		return targets, err
	})
}

// reportOn looks at one of several clusters. There is no report of one that knows
// nothing of the version: what it has instead goes to have.
func (o *usageOptions) reportOn(ctx context.Context, m member, words, args []string, have func(versions []string)) (*v1alpha1.UsageReport, []string, error) {
	one := *o
	one.connection = words
	client, err := m.Cluster()
	if err != nil {
		return nil, nil, err
	}
	targets, notFound, err := one.targetsOn(ctx, m, client, args, have)
	if err != nil {
		return nil, nil, err
	}
	report, err := one.report(ctx, m.Factory, client, targets)
	if err != nil {
		return nil, nil, err
	}
	if unknown := (*noVersionError)(nil); errors.As(mistyped(targets, report), &unknown) {
		have(unknown.have)
		return nil, notFound, nil
	}
	return report, notFound, nil
}

// runFleet is "usage" on many clusters.
func (o *usageOptions) runFleet(f *Factory, command *cobra.Command, args []string, printer *printers.Printer) error {
	ctx := command.Context()
	var mutex sync.Mutex
	var known []string
	have := func(versions []string) {
		mutex.Lock()
		defer mutex.Unlock()
		known = append(known, versions...)
	}
	answers, err := ask(ctx, f, &o.fleet, o.sources.requests.watch, func(ctx context.Context, m member) (*v1alpha1.UsageReport, []string, error) {
		return o.reportOn(ctx, m, m.words(command), args, have)
	})
	if err != nil {
		return err
	}
	table := fleetTable{columns: []printers.Column{{Header: "CRD"}, {Header: "VERSION"}, {Header: "VERDICT"}, {Header: "WHY"}}}
	inUse := false
	var reports []printers.ClusterUsage
	for _, one := range answers {
		addRows(&table, one, "the cluster has no such version", func(report *v1alpha1.UsageReport) []fleetRow {
			if report == nil {
				return nil
			}
			reports = append(reports, printers.ClusterUsage{Context: one.Context, Report: report})
			var rows []fleetRow
			for _, item := range report.Items {
				row := fleetRow{item: item, cells: []string{item.CRD, item.Version, string(item.Verdict), item.Why}}
				if item.Verdict == v1alpha1.UsageInUse {
					inUse, row.name = true, crdName(item.CRD)
				}
				rows = append(rows, row)
			}
			return rows
		})
	}
	if err := printers.SortBy(table.rows, printer.SortBy()); err != nil {
		return UsageError(command, err)
	}
	asked := func(one printers.ClusterUsage) bool { return len(one.Report.Items) > 0 }
	if failure(answers) == nil && !slices.ContainsFunc(reports, asked) && len(known) > 0 {
		return noSuchVersion(noneHas(len(answers))+", and nothing there names,", strings.TrimPrefix(args[0], versionPrefix), known)
	}
	document := printers.Document{Object: fleetReport(command, answers, func(item *v1alpha1.FleetItem, report *v1alpha1.UsageReport) {
		item.Usage = report
	})}
	table.into(&document)
	document.Text = func(w io.Writer, _ bool) error {
		if err := document.Table.Print(w, printer.TableOptions()); err != nil {
			return err
		}
		return printers.WriteClusterUsage(w, reports, printer.TableOptions())
	}
	if err := printer.Print(f.Out, document); err != nil {
		return err
	}
	switch err := failure(answers); {
	case err != nil:
		return err
	case !slices.ContainsFunc(reports, asked):
		return errors.New("none of the clusters has what was asked for; kubectl crdver status shows what there is")
	case inUse:
		return Pending()
	}
	return ctx.Err() // A watch that was cut short shows what it has.
}

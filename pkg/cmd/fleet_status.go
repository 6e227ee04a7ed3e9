package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

// runFleet is "status" on many clusters.
func (o *statusOptions) runFleet(f *Factory, command *cobra.Command, r reading, printer *printers.Printer) error {
	answers, err := ask(command.Context(), f, &o.fleet, 0, func(ctx context.Context, m member) ([]crdReport, []string, error) {
		return withoutUnknown(r.args, 0, func(args []string) ([]crdReport, error) {
			return o.reports(ctx, r.on(m, args), false)
		})
	})
	if err != nil {
		return err
	}
	table := fleetTable{columns: statusTable(nil).Columns}
	for _, one := range answers {
		addRows(&table, one, "the cluster has no such CRDs", func(reports []crdReport) []fleetRow {
			var rows []fleetRow
			for i, report := range reports {
				cells := statusTable([]v1alpha1.CRDStatus{report.item}).Rows[0]
				if next := report.item.Next; next != nil {
					next.Command = strings.Join(append([]string{next.Command}, one.member.words(command)...), " ")
				}
				rows = append(rows, fleetRow{item: reports[i].item, cells: cells, name: crdName(report.item.Name)})
			}
			return rows
		})
	}
	if err := printers.SortBy(table.rows, printer.SortBy()); err != nil {
		return UsageError(command, err)
	}
	document := printers.Document{Object: fleetReport(command, answers, func(item *v1alpha1.FleetItem, reports []crdReport) {
		item.Status = &v1alpha1.StatusList{TypeMeta: typeMeta(v1alpha1.KindStatusList), Items: []v1alpha1.CRDStatus{}}
		for _, report := range reports {
			item.Status.Items = append(item.Status.Items, report.item)
		}
	})}
	table.into(&document)
	if err := printer.Print(f.Out, document); err != nil {
		return err
	}
	return firstError(failure(answers), o.requiredOfAll(answers))
}

// requiredOfAll is --require on many clusters.
func (o *statusOptions) requiredOfAll(answers []answer[[]crdReport]) error {
	var refusals []string
	for _, one := range answers {
		if !one.ok() {
			continue
		}
		if err := o.required(one.value); err != nil {
			refusals = append(refusals, fmt.Sprintf("%s: %s", one.Context, err))
		}
	}
	if len(refusals) == 0 {
		return nil
	}
	return Refused(errors.New(strings.Join(refusals, "\n")))
}

// on returns the reading of one of several clusters.
func (r reading) on(m member, args []string) reading {
	r.Factory, r.args = m.Factory, args
	return r
}

// checkFleet refuses manifests: they are the same wherever they are read.
func (r *readFlags) checkFleet(command *cobra.Command, o *fleetFlags) error {
	if r.local() && o.given(command) {
		return UsageErrorf(command, "manifests are read without a cluster: leave out -f and -k, or %s", o.name(command))
	}
	return o.check(command)
}

// firstError returns the first error that there is: the worst comes first.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

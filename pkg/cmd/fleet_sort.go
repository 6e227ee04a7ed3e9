package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

// runFleet is "sort" on many clusters.
func (o *sortOptions) runFleet(f *Factory, command *cobra.Command, r reading, printer *printers.Printer) error {
	answers, err := ask(command.Context(), f, &o.fleet, 0, func(ctx context.Context, m member) ([]v1alpha1.Version, []string, error) {
		return withoutUnknown(r.args, 0, func(args []string) ([]v1alpha1.Version, error) {
			return o.crds(ctx, r.on(m, args))
		})
	})
	if err != nil {
		return err
	}
	table := fleetTable{columns: versionsTable(nil).Columns}
	for _, one := range answers {
		addRows(&table, one, "the cluster has no such CRDs", func(items []v1alpha1.Version) []fleetRow {
			var rows []fleetRow
			for i, cells := range versionsTable(items).Rows {
				rows = append(rows, fleetRow{item: items[i], cells: cells, name: crdName(items[i].CRD)})
			}
			return rows
		})
	}
	if err := printers.SortBy(table.rows, printer.SortBy()); err != nil {
		return UsageError(command, err)
	}
	document := printers.Document{Object: fleetReport(command, answers, func(item *v1alpha1.FleetItem, items []v1alpha1.Version) {
		item.Versions = &v1alpha1.VersionList{TypeMeta: typeMeta(v1alpha1.KindVersionList), Items: append([]v1alpha1.Version{}, items...)}
	})}
	table.into(&document)
	if err := printer.Print(f.Out, document); err != nil {
		return err
	}
	return failure(answers)
}

package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/observe"
	"github.com/crdver/kubectl-crdver/pkg/printers"
	"github.com/crdver/kubectl-crdver/pkg/source"
)

// checkWith refuses what only one cluster has: its etcd, and reports for tools
// that know of no clusters.
func (o *fleetFlags) checkWith(command *cobra.Command, etcd bool, flags *printers.Flags) error {
	switch format := command.Flags().Lookup("output").Value.String(); {
	case !o.given(command):
		return nil
	case etcd:
		return UsageErrorf(command, "an etcd belongs to one cluster, and %s asks several: leave one of them out", o.name(command))
	case slices.Contains(flags.More(), format):
		return UsageErrorf(command, "-o %s is about one cluster, and %s asks several: use -o json, or ask one after the other", format, o.name(command))
	}
	return nil
}

// runFleet is "validate" on many clusters.
func (o *validateOptions) runFleet(f *Factory, command *cobra.Command, args []string, settings ruleSettings, printer *printers.Printer) error {
	rules := settings.of("validate")
	answers, err := ask(command.Context(), f, &o.fleet, 0, func(ctx context.Context, m member) (*v1alpha1.ValidationReport, []string, error) {
		return withoutUnknown(args, 0, func(args []string) (*v1alpha1.ValidationReport, error) {
			checked, err := o.checkAll(ctx, m.Factory, args, rules)
			return reportOf(checked), err
		})
	})
	if err != nil {
		return err
	}
	table := fleetTable{columns: []printers.Column{{Header: "CRD"}, {Header: "SEVERITY"}, {Header: "RULE"}, {Header: "PATH", Wide: true}, {Header: "MESSAGE"}}}
	var findings []v1alpha1.Finding
	for _, one := range answers {
		addRows(&table, one, "", func(report *v1alpha1.ValidationReport) []fleetRow {
			if report == nil { // None of the CRDs is there.
				return nil
			}
			findings = append(findings, report.Findings...)
			return findingRows(report)
		})
	}
	if err := printers.SortBy(table.rows, printer.SortBy()); err != nil {
		return UsageError(command, err)
	}
	document := printers.Document{Object: fleetReport(command, answers, func(item *v1alpha1.FleetItem, report *v1alpha1.ValidationReport) {
		item.Validation = report
	})}
	table.into(&document)
	if err := printer.Print(f.Out, document); err != nil {
		return err
	}
	return firstError(failure(answers), failing(findings, settings))
}

// findingRows are the findings of one cluster, or the row that says that there are
// none.
func findingRows(report *v1alpha1.ValidationReport) []fleetRow {
	var rows []fleetRow
	for _, finding := range report.Findings {
		if finding.Suppressed != nil {
			continue
		}
		rows = append(rows, fleetRow{
			item: finding, name: crdName(finding.CRD),
			cells: []string{finding.CRD, string(finding.Severity), finding.Rule, finding.Path, finding.Message},
		})
	}
	if len(rows) == 0 {
		return []fleetRow{{cells: []string{printers.None, printers.None, printers.None, printers.None, printers.SummaryLine(report.Summary)}}}
	}
	return rows
}

func (o *preflightOptions) checkFleet(command *cobra.Command) error {
	if len(o.against) > 0 && o.fleet.given(command) {
		return UsageErrorf(command, "--against compares manifests, without a cluster: leave it out, or %s", o.fleet.name(command))
	}
	return firstError(o.fleet.check(command), o.fleet.checkWith(command, false, o.print))
}

// runFleet is "preflight" on many clusters. The manifests are read once: standard
// input has no second time, and what a URL leads to may change.
func (o *preflightOptions) runFleet(f *Factory, command *cobra.Command, settings ruleSettings, printer *printers.Printer) error {
	ctx := command.Context()
	r := reading{Factory: f, flags: readFlags{files: o.files}, whole: true}
	next, err := readManifests(ctx, r, func(s lifecycle.State) crd.CRD { return s.CRD })
	// A chart need not have CRDs: then there is nothing that could break.
	if none := new(source.NoCRDsError); errors.As(err, &none) && none.Others > 0 {
		f.tell("Nothing to compare: %s\n", none)
		err = nil
	}
	if err != nil {
		return err
	}
	places, now := &places{}, time.Now()
	answers, err := ask(ctx, f, &o.fleet, 0, func(ctx context.Context, m member) (*v1alpha1.PreflightReport, []string, error) {
		report, err := o.compareWith(ctx, m, next, settings, places, now)
		return report, nil, err
	})
	if err != nil {
		return err
	}
	table := fleetTable{columns: []printers.Column{{Header: "CRD"}, {Header: "VERDICT"}, {Header: "ERRORS"}, {Header: "WARNINGS"}}}
	var findings []v1alpha1.Finding
	for _, one := range answers {
		addRows(&table, one, "nothing to compare", func(report *v1alpha1.PreflightReport) []fleetRow {
			var rows []fleetRow
			for _, item := range report.Items {
				summary := summaryOf(1, item.Findings)
				findings = append(findings, item.Findings...)
				rows = append(rows, fleetRow{
					item: item, name: crdName(item.CRD),
					cells: []string{item.CRD, printers.VerdictText(item), fmt.Sprint(summary.Errors), fmt.Sprint(summary.Warnings)},
				})
			}
			return rows
		})
	}
	if err := printers.SortBy(table.rows, printer.SortBy()); err != nil {
		return UsageError(command, err)
	}
	document := printers.Document{Object: fleetReport(command, answers, func(item *v1alpha1.FleetItem, report *v1alpha1.PreflightReport) {
		item.Preflight = report
	})}
	table.into(&document)
	document.Text = func(w io.Writer, wide bool) error {
		if err := document.Table.Print(w, printer.TableOptions()); err != nil {
			return err
		}
		return preflightDetails(w, answers, settings, wide)
	}
	if err := printer.Print(f.Out, document); err != nil {
		return err
	}
	return firstError(failure(answers), failing(findings, settings))
}

// compareWith compares the manifests with one of several clusters.
func (o *preflightOptions) compareWith(
	ctx context.Context, m member, manifests []crd.CRD, settings ruleSettings, places *places, now time.Time,
) (*v1alpha1.PreflightReport, error) {
	client, err := m.Cluster()
	if err != nil {
		return nil, err
	}
	old := &oldCRDs{client: client, observer: observe.New(client)}
	report := &v1alpha1.PreflightReport{TypeMeta: typeMeta(v1alpha1.KindPreflightReport), Items: []v1alpha1.Preflight{}}
	var findings []v1alpha1.Finding
	for _, one := range manifests {
		// A copy: several clusters are compared with it at the same time.
		one.CustomResourceDefinition, one.Origin.Internal = one.DeepCopy(), one.Origin.Internal.DeepCopy()
		item, err := o.compareOne(ctx, lifecycle.New(one, lifecycle.Observations{}), settings, old, now)
		if err != nil {
			return nil, err
		}
		for i := range item.Findings {
			item.Findings[i].Location = places.find(one.Origin, item.Findings[i].Path)
		}
		report.Items, findings = append(report.Items, item), append(findings, item.Findings...)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("comparing CRDs: %w", err)
	}
	report.Summary = summaryOf(len(report.Items), findings)
	return report, nil
}

// preflightDetails writes what is behind the verdicts, cluster by cluster.
func preflightDetails(w io.Writer, answers []answer[*v1alpha1.PreflightReport], settings ruleSettings, wide bool) error {
	byID := map[string]v1alpha1.Rule{}
	for _, rule := range ruleDocuments(settings.rules) {
		byID[rule.ID] = rule
	}
	for _, one := range answers {
		if !one.ok() || !slices.ContainsFunc(one.value.Items, func(item v1alpha1.Preflight) bool { return item.Verdict != v1alpha1.VerdictOK || wide }) {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s:\n", printers.Escape(one.Context)); err != nil {
			return fmt.Errorf("writing the details: %w", err)
		}
		if err := printers.WritePreflight(w, one.value, byID, wide); err != nil {
			return err
		}
	}
	return nil
}

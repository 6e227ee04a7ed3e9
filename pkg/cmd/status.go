package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/observe"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

const statusLong = `Show where CRDs are in the life of their versions, and what to do next.

For one CRD, or with -o wide, the whole picture: the state of each version and
whether it can be removed yet; the stored versions, and whether that list can be
trusted (objects may be persisted at versions that it no longer names, after an
in-tree StorageVersionMigration or a patch by hand); what the server's discovery
says; who manages the CRD and may put its own manifest back; and the next
command, ready to paste.

--require VERSION makes the command fail with exit code 3 unless each of the
CRDs serves VERSION.` + fleetHelp

const statusExample = `  # All CRDs of the cluster, a row each
  kubectl crdver status

  # One CRD in detail, by any of its names
  kubectl crdver status crontabs

  # What to do next, for all CRDs
  kubectl crdver status -o jsonpath='{range .items[?(@.next)]}{.next.command}{"\n"}{end}'

  # One CRD on many clusters
  kubectl crdver status crontabs.example.com --contexts 'prod-*'

  # Fail if a CRD does not serve the version that a controller needs
  kubectl crdver status gateways.gateway.networking.k8s.io --require v1`

type statusOptions struct {
	read    readFlags
	fleet   fleetFlags
	print   *printers.Flags
	require string
}

// crdReport is what "status" keeps of a CRD.
type crdReport struct {
	item     v1alpha1.CRDStatus
	detail   *printers.Description
	warnings []string
	// lack says why the version of --require is not served; unknown why that
	// could not be found out.
	lack, unknown string
}

// MarshalJSON makes --sort-by see the item.
func (r crdReport) MarshalJSON() ([]byte, error) { return json.Marshal(r.item) } //nolint:wrapcheck // it is encoding/json that asks

func newStatusCommand(f *Factory) *cobra.Command {
	o := statusOptions{print: printers.NewFlags()}
	command := &cobra.Command{
		Use:               "status [CRD...]",
		Short:             "Show where CRDs are in the life of their versions, and what to do next",
		Long:              statusLong,
		Example:           statusExample,
		ValidArgsFunction: completeCRDs(f),
		RunE:              func(command *cobra.Command, args []string) error { return o.run(f, command, args) },
	}
	o.read.add(command)
	o.fleet.add(f, command)
	command.Flags().StringVar(&o.require, "require", "", "Fail with exit code 3 unless this version is served")
	o.print.AddFlags(command)
	completeFlag(command, "output", o.print.Formats()...)
	return command
}

func (o *statusOptions) run(f *Factory, command *cobra.Command, args []string) error {
	printer, err := printerOf(command, o.print)
	if err != nil {
		return err
	}
	if err := firstError(o.read.validate(command, args), o.read.checkFleet(command, &o.fleet)); err != nil {
		return err
	}
	if o.require != "" && len(args) == 0 && o.read.selector == "" && !o.read.local() {
		return UsageErrorf(command, "--require needs to know of which CRDs: name them, or use -l, -f or -k")
	}
	r := reading{Factory: f, flags: o.read, args: args, look: observe.Options{
		Objects: true, Discovery: true, Migrations: true, APIServices: len(args) > 0 || o.require != "",
	}}
	if o.fleet.given(command) {
		return o.runFleet(f, command, r, printer)
	}
	detailed := printer.Wide() || printer.Default() && len(args) == 1
	reports, err := o.reports(command.Context(), r, detailed)
	if err != nil {
		return err
	}
	if err := printers.SortBy(reports, printer.SortBy()); err != nil {
		return UsageError(command, err)
	}
	if err := printStatus(f, printer, reports, detailed); err != nil {
		return err
	}
	r.noteEmpty(len(reports))
	return o.required(reports)
}

// reports looks at the CRDs and prints the warnings.
func (o *statusOptions) reports(ctx context.Context, r reading, detailed bool) ([]crdReport, error) {
	named := r.flags.local() || len(r.args) > 0
	reports, err := read(ctx, r, func(s lifecycle.State) crdReport {
		report := crdReport{item: statusItem(s), warnings: warningsOf(s, named)}
		if detailed {
			report.detail = describeStatus(s, report.item)
		}
		if o.require != "" {
			report.lack, report.unknown = lacks(s, o.require)
			if d := s.Observations.Discovery; d != nil && d.APIServicesError != "" && report.lack == "" {
				report.warnings = append(report.warnings, "whether another APIService serves "+o.require+" is unknown: "+d.APIServicesError)
			}
		}
		return report
	})
	for _, report := range reports {
		for _, warning := range report.warnings {
			r.Warn(warning)
		}
	}
	return reports, err
}

func printStatus(f *Factory, printer *printers.Printer, reports []crdReport, detailed bool) error {
	if detailed {
		for i, report := range reports {
			if i > 0 {
				if _, err := fmt.Fprintln(f.Out); err != nil {
					return fmt.Errorf("writing the answer: %w", err)
				}
			}
			if err := report.detail.Print(f.Out); err != nil {
				return err
			}
		}
		return nil
	}
	list := &v1alpha1.StatusList{TypeMeta: typeMeta(v1alpha1.KindStatusList), Items: []v1alpha1.CRDStatus{}}
	document := printers.Document{Object: list}
	for _, report := range reports {
		list.Items = append(list.Items, report.item)
		document.Items = append(document.Items, report.item)
		document.Names = append(document.Names, crdName(report.item.Name))
	}
	document.Table = statusTable(list.Items)
	return printer.Print(f.Out, document)
}

func statusTable(items []v1alpha1.CRDStatus) printers.Table {
	table := printers.Table{Columns: []printers.Column{
		{Header: "NAME"}, {Header: "SERVED"}, {Header: "STORAGE"}, {Header: "STORED"}, {Header: "DEPRECATED"},
		{Header: "CONVERSION"}, {Header: "OBJECTS"}, {Header: "NEXT"},
	}}
	for _, item := range items {
		next := ""
		if item.Next != nil {
			next = shortCommand(item)
		}
		table.Rows = append(table.Rows, []string{
			item.Name, printers.List(item.Served), item.StorageVersion, storedCell(item), printers.List(item.Deprecated),
			item.ConversionStrategy, objectsCell(item), next,
		})
	}
	return table
}

// shortCommand returns the next command without the words that every row has:
// "promote v1".
func shortCommand(item v1alpha1.CRDStatus) string {
	command := strings.TrimPrefix(item.Next.Command, "kubectl crdver ")
	return strings.TrimSuffix(command, " "+item.Name)
}

// storedCell returns the stored versions, with a question mark where the list
// may claim less than the truth.
func storedCell(item v1alpha1.CRDStatus) string {
	switch trust := item.StoredVersionsTrust; {
	case trust == nil:
		return printers.Unknown
	case !trust.Trusted:
		return strings.Join(item.StoredVersions, ",") + "?"
	default:
		return printers.List(item.StoredVersions)
	}
}

func objectsCell(item v1alpha1.CRDStatus) string {
	if item.Objects == nil {
		return printers.Unknown
	}
	return fmt.Sprint(*item.Objects)
}

// lacks says why a version cannot be used (case 89), or why that is unknown; two
// empty strings mean that the CRD serves it.
func lacks(s lifecycle.State, version string) (lack, unknown string) {
	name := s.CRD.Name
	d := s.Observations.Discovery
	if d != nil {
		for _, service := range d.APIServices {
			if service.Version == version && service.Service != "" {
				return fmt.Sprintf("%s: %s is served by another APIService, %s (service %s), not by this CRD",
					name, version, service.Name, service.Service), ""
			}
		}
	}
	switch v := s.Version(version); {
	case v == nil && len(s.Versions) == 0:
		return fmt.Sprintf("%s: %s is not in spec.versions (have none)", name, version), ""
	case v == nil:
		return fmt.Sprintf("%s: %s is not in spec.versions (have %s)", name, version, strings.Join(s.CRD.VersionNames(), ", ")), ""
	case !v.Served && s.CRD.Origin.Live():
		return fmt.Sprintf("%s: %s is in spec.versions but not served; serve it with: kubectl crdver restore %s %s", name, version, version, name), ""
	case !v.Served:
		return fmt.Sprintf("%s: %s is in spec.versions but not served", name, version), ""
	case d != nil && d.Error != "":
		return "", fmt.Sprintf("%s: whether %s is served is unknown, discovery could not be read: %s", name, version, d.Error)
	case d != nil && !slices.Contains(d.Group, version):
		return fmt.Sprintf("%s: %s is served according to spec.versions, but /apis/%s does not list it", name, version, s.CRD.Spec.Group), ""
	}
	return "", ""
}

// required returns the refusal of --require.
func (o *statusOptions) required(reports []crdReport) error {
	if o.require == "" {
		return nil
	}
	if len(reports) == 0 {
		return Refused(fmt.Errorf("no CRD is selected, so none serves %s", o.require))
	}
	var lacks, unknown []string
	for _, report := range reports {
		if report.lack != "" {
			lacks = append(lacks, report.lack)
		}
		if report.unknown != "" {
			unknown = append(unknown, report.unknown)
		}
	}
	switch {
	case len(lacks) > 0:
		return Refused(errors.New(strings.Join(append(lacks, unknown...), "\n")))
	case len(unknown) > 0:
		return errors.New(strings.Join(unknown, "\n"))
	}
	return nil
}

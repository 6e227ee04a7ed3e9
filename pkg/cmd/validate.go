package cmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/observe"
	"github.com/crdver/kubectl-crdver/pkg/printers"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

const validateLong = `Say what is wrong with the versions of CRDs: what the API server would refuse,
what makes objects unreadable or loses data, and what will hurt later.

With -f or -k it reads manifests and needs no cluster; otherwise it looks at the
CRDs of the cluster, and at what is around them: stored versions, conditions,
discovery, the conversion webhook. It changes nothing, except that --fix edits
manifests where what is to be done leaves no choice.

The API server's own rules are applied by its own code. Each finding names its
rule; "kubectl crdver explain RULE" says why it matters. The exit code is 2 if
there is a finding at or above --fail-on.

A CRD can say that rules do not count for it:

  metadata:
    annotations:
      crdver.dev/ignore: "storage-version-not-preferred: promoted in 1.9"

The file .crdver.yaml holds the same settings as the flags:

  apiVersion: crdver.dev/v1alpha1
  kind: ValidationConfig
  skip: [printer-columns-differ]
  severity: {deprecated-without-message: error}
  failOn: warning` + fleetHelp

const validateExample = `  # The CRDs of a project, in CI
  kubectl crdver validate -f config/crd/bases -R

  # A chart's
  helm template ./chart --include-crds | kubectl crdver validate -f -

  # The CRDs of a cluster, failing on warnings, too
  kubectl crdver validate --fail-on warning

  # One CRD of a cluster, with the reasons for the rules
  kubectl crdver validate crontabs.example.com -o wide

  # With what is really stored, from a snapshot of etcd
  kubectl crdver validate --etcd-snapshot snapshot.db

  # For code scanning, for a test report, for annotations of a pull request
  kubectl crdver validate -f crds/ -o sarif > crdver.sarif
  kubectl crdver validate -f crds/ -o junit > crdver.xml
  kubectl crdver validate -f crds/ -o github

  # Correct what leaves no choice; look at the changes first
  kubectl crdver validate -f crds/ --fix --dry-run
  kubectl crdver validate -f crds/ --fix

  # What are the rules?
  kubectl crdver validate --list-rules`

// The formats of findings that other tools read.
const (
	formatSARIF    = "sarif"
	formatJUnit    = "junit"
	formatGitHub   = "github"
	formatMarkdown = "markdown"
)

// homepage is where the plugin is explained.
const homepage = "https://github.com/crdver/kubectl-crdver"

type validateOptions struct {
	read      readFlags
	fleet     fleetFlags
	rules     ruleFlags
	etcd      etcdFlags
	print     *printers.Flags
	local     bool
	listRules bool
	fix       bool
	dryRun    bool
}

func newValidateCommand(f *Factory) *cobra.Command {
	o := validateOptions{print: printers.NewFlags(formatSARIF, formatJUnit, formatGitHub)}
	command := &cobra.Command{
		Use:               "validate [CRD...]",
		Aliases:           []string{"lint"},
		Short:             "Say what is wrong with the versions of CRDs",
		Long:              validateLong,
		Example:           validateExample,
		ValidArgsFunction: completeCRDs(f),
		RunE:              func(command *cobra.Command, args []string) error { return o.run(f, command, args) },
	}
	o.read.add(command)
	o.rules.add(command)
	o.etcd.add(command, "to compare with what the CRDs say of stored versions")
	flags := command.Flags()
	flags.BoolVar(&o.local, "local", false, "Never contact a server: needs -f or -k, which do not do so anyway")
	flags.BoolVar(&o.listRules, "list-rules", false, "List the rules instead of applying them")
	flags.BoolVar(&o.fix, "fix", false, "Edit the manifests where the correction leaves no choice; comments and layout stay")
	flags.BoolVar(&o.dryRun, "dry-run", false, "With --fix, print the changes and write nothing")
	AddTimeoutFlag(command, "Give up after this time")
	o.fleet.add(f, command)
	o.print.AddFlags(command)
	command.MarkFlagsMutuallyExclusive("fix", "list-rules")
	completeFlag(command, "output", o.print.Formats()...)
	return command
}

func (o *validateOptions) check(command *cobra.Command, args []string) error {
	switch {
	case o.local && !o.read.local():
		return UsageErrorf(command, "--local needs manifests: -f or -k")
	case o.dryRun && !o.fix:
		return UsageErrorf(command, "--dry-run belongs to --fix: validate writes nothing without it")
	case o.fix && (len(o.read.files.Filenames) == 0 || slices.Contains(o.read.files.Filenames, "-")):
		return UsageErrorf(command, "--fix edits files: name them with -f")
	}
	if err := o.etcd.validate(command); err != nil {
		return err
	}
	return firstError(o.read.validate(command, args), o.read.checkFleet(command, &o.fleet), o.fleet.checkWith(command, o.etcd.given(), o.print))
}

func (o *validateOptions) run(f *Factory, command *cobra.Command, args []string) error {
	printer, err := printerOf(command, o.print)
	if err != nil {
		return err
	}
	if err := o.check(command, args); err != nil {
		return err
	}
	settings, err := o.rules.settings(command)
	if err != nil {
		return err
	}
	if o.listRules {
		return printer.Print(f.Out, rulesDocument(settings.rules))
	}
	rules := settings.of("validate")
	if len(rules) == 0 {
		return UsageErrorf(command, "no rule of validate is left to apply")
	}
	if o.fleet.given(command) {
		return o.runFleet(f, command, args, settings, printer)
	}
	checked, loadErr := o.checkAll(command.Context(), f, args, rules)
	if command.Context().Err() != nil || len(checked) == 0 && loadErr != nil {
		return loadErr
	}
	if o.fix {
		if err := o.fixAll(f, command, checked); err != nil {
			return err
		}
	}
	report := reportOf(checked)
	if err := printers.SortBy(report.Findings, printer.SortBy()); err != nil {
		return UsageError(command, err)
	}
	if !o.fix || !o.dryRun {
		if err := printer.Print(f.Out, validationDocument(report, settings, f.version)); err != nil {
			return err
		}
	}
	if loadErr != nil {
		return loadErr
	}
	return failing(report.Findings, settings)
}

// failing returns the error for the exit code 2 if a finding counts.
func failing(findings []v1alpha1.Finding, settings ruleSettings) error {
	for _, finding := range findings {
		if finding.Suppressed == nil && settings.counts(finding.Severity) {
			return Pending()
		}
	}
	return nil
}

// checkedCRD is what the rules found in one CRD.
type checkedCRD struct {
	v1alpha1.CheckedCRD

	found []validate.Found
	// warnings are about how the manifest was written.
	warnings []string
	// fixes are the edits that make findings go away; nil without any.
	fixes *fixes
}

// checkAll applies the rules to all CRDs. Manifests that cannot be read are in
// the error, and do not keep the others from being looked at.
func (o *validateOptions) checkAll(ctx context.Context, f *Factory, args []string, rules []validate.Rule) ([]checkedCRD, error) {
	r := reading{Factory: f, flags: o.read, args: args, whole: true, look: observe.Options{
		Objects: true, Discovery: true, Migrations: true, APIServices: true, Converter: true, Clients: true,
	}}
	now := time.Now()
	places := &places{}
	stored, err := o.etcd.evidence(ctx)
	if err != nil {
		return nil, err
	}
	defer stored.close()
	checked, err := read(ctx, r, func(s lifecycle.State) checkedCRD {
		if s.Observations.Stored = stored.of(ctx, s.CRD); s.Observations.Stored != nil {
			s = lifecycle.New(s.CRD, s.Observations) // Whether the list can be trusted depends on it.
		}
		one := checkOne(ctx, s, rules, now, places)
		if !o.fix {
			one.fixes = nil // They hold the text of the manifest.
		}
		return one
	})
	if err == nil {
		r.noteEmpty(len(checked))
	}
	for _, one := range checked {
		for _, warning := range one.warnings {
			f.Warn(warning)
		}
	}
	return checked, err
}

// checkOne applies the rules to one CRD.
func checkOne(ctx context.Context, s lifecycle.State, rules []validate.Rule, now time.Time, places *places) checkedCRD {
	origin := s.CRD.Origin
	checked := checkedCRD{CheckedCRD: v1alpha1.CheckedCRD{Name: s.CRD.Name, Origin: origin.String()}}
	subject := validate.NewSubject(ctx, s, now)
	var err error
	if subject.Document, err = origin.Values(); err != nil {
		checked.warnings = append(checked.warnings, err.Error())
	}
	for _, field := range origin.UnknownFields {
		checked.warnings = append(checked.warnings, fmt.Sprintf("%s: %s: no CRD has the field %s: kubectl apply refuses it, others drop it silently", origin, s.CRD.Name, field))
	}
	for _, id := range validate.UnknownIgnored(allRules(), s.CRD) {
		checked.warnings = append(checked.warnings, fmt.Sprintf("%s: %s ignores the rule %q, which does not exist", origin, s.CRD.Name, id))
	}
	checked.found = validate.Run(rules, subject)
	if !origin.Live() {
		for i := range checked.found {
			checked.found[i].Location = places.find(origin, checked.found[i].Path)
		}
		checked.fixes = newFixes(origin, checked.found)
	}
	return checked
}

// reportOf puts the findings of all CRDs together.
func reportOf(checked []checkedCRD) *v1alpha1.ValidationReport {
	report := &v1alpha1.ValidationReport{
		TypeMeta: typeMeta(v1alpha1.KindValidationReport), CRDs: []v1alpha1.CheckedCRD{}, Findings: []v1alpha1.Finding{},
	}
	for _, one := range checked {
		report.CRDs = append(report.CRDs, one.CheckedCRD)
		report.Findings = append(report.Findings, findingsOf(one.found)...)
	}
	report.Summary = summaryOf(len(checked), report.Findings)
	return report
}

func summaryOf(crds int, findings []v1alpha1.Finding) v1alpha1.FindingSummary {
	summary := v1alpha1.FindingSummary{CRDs: crds}
	for _, finding := range findings {
		switch {
		case finding.Suppressed != nil:
			summary.Suppressed++
		case finding.Severity == v1alpha1.SeverityError:
			summary.Errors++
		case finding.Severity == v1alpha1.SeverityWarning:
			summary.Warnings++
		default:
			summary.Infos++
		}
	}
	return summary
}

// validationDocument returns the report in all its forms.
func validationDocument(report *v1alpha1.ValidationReport, settings ruleSettings, version string) printers.Document {
	rules := ruleDocuments(settings.of("validate"))
	byID := make(map[string]v1alpha1.Rule, len(rules))
	for _, rule := range rules {
		byID[rule.ID] = rule
	}
	document := printers.Document{
		Object: report,
		Text: func(w io.Writer, wide bool) error {
			if len(report.CRDs) == 0 {
				return nil
			}
			return printers.WriteFindings(w, report, byID, wide)
		},
		More: findingFormats(report.CRDs, report.Findings, settings, rules, version),
	}
	for _, finding := range report.Findings {
		if finding.Suppressed == nil {
			document.Items = append(document.Items, finding)
			document.Names = append(document.Names, crdName(finding.CRD))
		}
	}
	return document
}

// findingFormats are the formats of findings that other tools read.
func findingFormats(crds []v1alpha1.CheckedCRD, findings []v1alpha1.Finding, settings ruleSettings, rules []v1alpha1.Rule, version string,
) map[string]func(io.Writer) error {
	return map[string]func(io.Writer) error{
		formatSARIF: func(w io.Writer) error {
			tool := printers.SARIFTool{Name: product, Version: clientVersion(version), URI: homepage, HelpURI: homepage + "#rules", Rules: rules}
			return printers.WriteSARIF(w, tool, findings)
		},
		formatJUnit: func(w io.Writer) error {
			return printers.WriteJUnit(w, "kubectl crdver", printers.JUnitCases(crds, findings, settings.counts))
		},
		formatGitHub: func(w io.Writer) error { return printers.WriteGitHub(w, findings) },
	}
}

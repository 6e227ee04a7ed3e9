package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/observe"
	"github.com/crdver/kubectl-crdver/pkg/preflight"
	"github.com/crdver/kubectl-crdver/pkg/printers"
	"github.com/crdver/kubectl-crdver/pkg/source"
	"github.com/crdver/kubectl-crdver/pkg/validate"
)

const preflightLong = `Say what applying manifests would do to the CRDs of the cluster: whether the API
server takes them, what they break, and what has to be done first.

Each CRD gets a verdict:

  ok                the server takes it and nothing breaks
  ok after N steps  not yet: what is listed has to be done first, in this order
  breaks            the server takes it, and clients or data are lost
  refused           the server does not take it, whatever is done first
  unknown           something that matters is not known, or could not be read

The update is validated by the API server's own code against the CRD that is
there, and the server is asked with a dry run, which admission policies see,
too. Live objects are held against the new schemas: --sample says how many.
Documents that are not CRDs are skipped. Nothing is changed.

With --against, manifests are compared with other manifests and no cluster is
needed; what objects are stored at is then not known.

Findings of "validate" are reported only if the manifest brings them; --all
shows those that were there before, too.` + fleetHelp

const preflightExample = `  # Before helm upgrade
  helm template ./chart --include-crds | kubectl crdver preflight -f -

  # What does a pull request do to the last release?
  kubectl crdver preflight -f config/crd --against release-1.4/crds -o markdown

  # Look at every object, and fail on warnings, too
  kubectl crdver preflight -f crds/ --sample 0 --fail-on warning`

// defaultSample is how many objects of a CRD are held against a new schema
// unless something else is asked for.
const defaultSample = 1000

type preflightOptions struct {
	fleet   fleetFlags
	files   resource.FilenameOptions
	against []string
	rules   ruleFlags
	print   *printers.Flags
	sample  int64
	all     bool
	server  bool
}

func newPreflightCommand(f *Factory) *cobra.Command {
	o := preflightOptions{print: printers.NewFlags(formatSARIF, formatJUnit, formatMarkdown, formatGitHub)}
	command := &cobra.Command{
		Use:               "preflight -f FILENAME...",
		Short:             "Say what applying manifests of CRDs would break, before it happens",
		Long:              preflightLong,
		Example:           preflightExample,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(command *cobra.Command, _ []string) error { return o.run(f, command) },
	}
	source.AddFlags(command, &o.files, "the CRDs to be applied")
	o.rules.add(command)
	flags := command.Flags()
	flags.StringSliceVar(&o.against, "against", nil, "Manifests to compare with instead of the cluster: files, folders or URLs")
	flags.Int64Var(&o.sample, "sample", defaultSample, "How many live objects of each CRD to hold against the new schema; 0 means all")
	flags.BoolVar(&o.all, "all", false, "Show findings that were there before, too")
	flags.BoolVar(&o.server, "server-dry-run", true, "Ask the server with a dry run of each update, which admission policies and webhooks see, too")
	AddTimeoutFlag(command, "Give up after this time")
	o.fleet.add(f, command)
	o.print.AddFlags(command)
	command.MarkFlagsOneRequired("filename", "kustomize")
	_ = command.MarkFlagFilename("against", "yaml", "yml", "json") // The only error is about a flag that does not exist.
	completeFlag(command, "output", o.print.Formats()...)
	return command
}

func (o *preflightOptions) run(f *Factory, command *cobra.Command) error {
	printer, err := printerOf(command, o.print)
	if err != nil {
		return err
	}
	if err := checkFiles(command, o.files); err != nil {
		return err
	}
	if command.Flags().Changed("against") && (len(o.against) == 0 || slices.Contains(o.against, "")) {
		return UsageErrorf(command, "--against is empty: name a file or a folder")
	}
	if o.sample < 0 {
		return UsageErrorf(command, "--sample %d: it must be at least 0, which means all", o.sample)
	}
	if slices.Contains(o.against, "-") && slices.Contains(o.files.Filenames, "-") {
		return UsageErrorf(command, "standard input can be read only once: -f or --against can be '-', not both")
	}
	if err := o.checkFleet(command); err != nil {
		return err
	}
	settings, err := o.rules.settings(command)
	if err != nil {
		return err
	}
	ctx := command.Context()
	if o.fleet.given(command) {
		return o.runFleet(f, command, settings, printer)
	}
	old, err := o.old(ctx, f)
	if err != nil {
		return err
	}
	items, loadErr := o.compareAll(ctx, f, settings, old)
	if ctx.Err() != nil {
		return fmt.Errorf("comparing CRDs: %w", ctx.Err())
	}
	// A chart need not have CRDs: then there is nothing that could break.
	if none := new(source.NoCRDsError); errors.As(loadErr, &none) && none.Others > 0 {
		f.tell("Nothing to compare: %s\n", none)
		loadErr = nil
	}
	if loadErr != nil && len(items) == 0 {
		return loadErr
	}
	report := &v1alpha1.PreflightReport{TypeMeta: typeMeta(v1alpha1.KindPreflightReport), Items: items}
	var findings []v1alpha1.Finding
	for _, item := range items {
		findings = append(findings, item.Findings...)
	}
	report.Summary = summaryOf(len(items), findings)
	if err := printer.Print(f.Out, preflightDocument(report, findings, settings, f.version)); err != nil {
		return err
	}
	if loadErr != nil {
		return loadErr
	}
	return failing(findings, settings)
}

// oldCRDs finds what a manifest would replace.
type oldCRDs struct {
	// files are the CRDs of --against, by name; client is nil with them.
	files    map[string]crd.CRD
	client   cluster.Interface
	observer *observe.Observer
}

func (o *preflightOptions) old(ctx context.Context, f *Factory) (*oldCRDs, error) {
	if len(o.against) == 0 {
		client, err := f.Cluster()
		if err != nil {
			return nil, err
		}
		return &oldCRDs{client: client, observer: observe.New(client)}, nil
	}
	old := &oldCRDs{files: map[string]crd.CRD{}}
	options := resource.FilenameOptions{Filenames: o.against, Recursive: o.files.Recursive}
	_, err := source.Files{FilenameOptions: options, Stdin: f.In}.Load(ctx, func(one crd.CRD) error {
		if known, twice := old.files[one.Name]; twice {
			return fmt.Errorf("the CRD %s is in %s and in %s: compare with one of them", one.Name, known.Origin, one.Origin)
		}
		old.files[one.Name] = one
		return nil
	})
	if err != nil {
		return nil, err
	}
	return old, nil
}

// compareAll compares each CRD of the manifests, in their order.
func (o *preflightOptions) compareAll(ctx context.Context, f *Factory, settings ruleSettings, old *oldCRDs) ([]v1alpha1.Preflight, error) {
	r := reading{Factory: f, flags: readFlags{files: o.files}, whole: true}
	type compared struct {
		item v1alpha1.Preflight
		err  error
	}
	now := time.Now()
	places := &places{}
	results, loadErr := readManifests(ctx, r, func(next lifecycle.State) compared {
		item, err := o.compareOne(ctx, next, settings, old, now)
		for i := range item.Findings {
			item.Findings[i].Location = places.find(next.CRD.Origin, item.Findings[i].Path)
		}
		return compared{item, err}
	})
	items := make([]v1alpha1.Preflight, 0, len(results))
	for _, result := range results {
		if result.err != nil {
			return nil, result.err
		}
		items = append(items, result.item)
	}
	return items, loadErr
}

// compareOne compares one manifest with what it would replace.
func (o *preflightOptions) compareOne(
	ctx context.Context, next lifecycle.State, settings ruleSettings, old *oldCRDs, now time.Time,
) (v1alpha1.Preflight, error) {
	subject := validate.NewSubject(ctx, next, now)
	subject.Document, _ = next.CRD.Origin.Values() // It was decoded before.
	input := preflight.Input{
		New: subject, Rules: settings.of("validate"), PreflightRules: settings.of("preflight"), All: o.all,
	}
	if old.client == nil {
		if before, ok := old.files[next.CRD.Name]; ok {
			input.Old = validate.NewSubject(ctx, lifecycle.New(before, lifecycle.Observations{}), now)
			input.Old.Document, _ = before.Origin.Values() // As above.
		}
		return preflight.Compare(input), nil
	}
	before, err := old.observer.ForPreflight(ctx, next.CRD, observe.PreflightOptions{Sample: o.sample, DryRun: o.server, FieldManager: lifecycle.FieldManager}, &input)
	if err != nil {
		return v1alpha1.Preflight{}, fmt.Errorf("comparing %s with the cluster: %w", next.CRD.Name, err)
	}
	if before != nil {
		input.Old = validate.NewSubject(ctx, *before, now)
	}
	return preflight.Compare(input), nil
}

// preflightDocument returns the report in all its forms.
func preflightDocument(report *v1alpha1.PreflightReport, findings []v1alpha1.Finding, settings ruleSettings, version string) printers.Document {
	rules := ruleDocuments(settings.rules)
	byID := make(map[string]v1alpha1.Rule, len(rules))
	for _, rule := range rules {
		byID[rule.ID] = rule
	}
	crds := make([]v1alpha1.CheckedCRD, 0, len(report.Items))
	document := printers.Document{Object: report}
	for _, item := range report.Items {
		crds = append(crds, v1alpha1.CheckedCRD{Name: item.CRD, Origin: item.Origin})
		document.Items = append(document.Items, item)
		document.Names = append(document.Names, crdName(item.CRD))
	}
	document.Text = func(w io.Writer, wide bool) error { return printers.WritePreflight(w, report, byID, wide) }
	document.More = findingFormats(crds, findings, settings, rules, version)
	document.More[formatMarkdown] = func(w io.Writer) error { return printers.WriteMarkdown(w, report) }
	return document
}

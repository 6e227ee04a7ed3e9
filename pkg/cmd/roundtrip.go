package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion/review"
	"github.com/crdver/kubectl-crdver/pkg/conversion/roundtrip"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/printers"
	"github.com/crdver/kubectl-crdver/pkg/source"
)

const roundtripLong = `Convert objects to another version of their CRD and back, and say what is not
the same then: which fields are lost, changed or appeared, in how many objects, and
which stage did it: the conversion, pruning (the schema does not know the field) or
defaulting. Nothing is written.

Each ordered pair of served versions is tried on live objects: the server is asked
what it shows at each version, and with dry runs what it would write; and each stage
is replayed with the API server's own code. With -f it is tried on manifests, whose
CRD is among them or on the cluster. A CRD without objects is tried on samples that
are generated from its schemas.

Two objects are compared by meaning: numbers and quantities by value, lists in
their order unless the schema says set or map. Values are shown only with
--show-values. The exit code is 2 if anything is lost or changed, or cannot be
converted, unless --accept names a file that lists it.`

const roundtripExample = `  # All pairs of versions of one CRD, on up to 500 objects
  kubectl crdver roundtrip crontabs.example.com

  # One direction, every object of a namespace
  kubectl crdver roundtrip crontabs.example.com --from v1beta1 --to v1 --all -n prod

  # On samples that are generated from the schemas, too
  kubectl crdver roundtrip crontabs.example.com --generate

  # In CI, without a cluster: manifests with a CRD, with objects or without
  kubectl crdver roundtrip -f crd.yaml -f examples/ -o junit

  # A webhook under development
  kubectl crdver roundtrip -f crd.yaml --url https://localhost:9443/convert --ca ca.crt

  # What is known and meant to be so
  kubectl crdver roundtrip crontabs.example.com --write-accept accepted.yaml
  kubectl crdver roundtrip crontabs.example.com --accept accepted.yaml`

type roundtripOptions struct {
	files       resource.FilenameOptions
	from, to    string
	sample      int
	all         bool
	selector    string
	generate    bool
	showValues  bool
	strict      bool
	accept      string
	writeAccept string
	webhook     webhookFlags
	print       *printers.Flags
}

func newRoundtripCommand(f *Factory) *cobra.Command {
	o := roundtripOptions{print: printers.NewFlags(formatJUnit)}
	command := &cobra.Command{
		Use:               "roundtrip [CRD...]",
		Short:             "Say what objects lose when they are converted to another version and back",
		Long:              roundtripLong,
		Example:           roundtripExample,
		ValidArgsFunction: completeCRDs(f),
		RunE:              func(command *cobra.Command, args []string) error { return o.run(f, command, args) },
	}
	source.AddFlags(command, &o.files, "custom resources, CRDs, or both, to take instead of the cluster's")
	flags := command.Flags()
	flags.StringVar(&o.from, "from", "", "Only round trips that start at this version")
	flags.StringVar(&o.to, "to", "", "Only round trips to this version")
	flags.IntVar(&o.sample, "sample", roundtrip.DefaultSample, "How many objects of each CRD to take, spread over the namespaces")
	flags.BoolVar(&o.all, "all", false, "Take every object")
	flags.StringVarP(&o.selector, "selector", "l", "", "Label selector for the objects, as in 'app=x,tier in (a,b)'")
	flags.BoolVar(&o.generate, "generate", false, "Take samples that are generated from the schemas, too")
	flags.BoolVar(&o.showValues, "show-values", false, "Show the values of fields, which may be secret")
	flags.BoolVar(&o.strict, "strict", false, "Exit with 2 for fields that appeared, too")
	flags.StringVar(&o.accept, "accept", "", "File with the differences that are expected")
	flags.StringVar(&o.writeAccept, "write-accept", "", "Write the differences that are found into this file, to be used with --accept")
	flags.StringVar(&o.webhook.url, "url", "", "URL of the conversion webhook to replay with, instead of what the CRD configures")
	flags.StringVar(&o.webhook.ca, "ca", "", "File with the certificates to check that of --url against; without it, those of this machine")
	AddTimeoutFlag(command, "Give up after this time")
	o.print.AddFlags(command)
	command.MarkFlagsMutuallyExclusive("all", "sample")
	completeFlag(command, "output", o.print.Formats()...)
	return command
}

func (o *roundtripOptions) check(command *cobra.Command, args []string) error {
	local := o.files.RequireFilenameOrKustomize() == nil
	if err := checkNotEmpty(command); err != nil {
		return err
	}
	if _, err := labels.Parse(o.selector); err != nil {
		return UsageErrorf(command, "invalid --selector: %w", err)
	}
	switch {
	case o.sample <= 0:
		return UsageErrorf(command, "--sample %d: it must be at least 1; --all takes every object", o.sample)
	case o.from != "" && o.from == o.to:
		return UsageErrorf(command, "--from and --to are both %s: a round trip needs two versions", o.from)
	case local && len(args) > 0:
		return UsageErrorf(command, "CRDs are named on a cluster or read from manifests, not both: leave out %q, or -f and -k", args[0])
	case local && (o.all || o.selector != ""):
		return UsageErrorf(command, "--all and --selector choose live objects: leave them out with -f and -k")
	}
	return nil
}

func (o *roundtripOptions) run(f *Factory, command *cobra.Command, args []string) error {
	printer, err := printerOf(command, o.print)
	if err != nil {
		return err
	}
	if err := o.check(command, args); err != nil {
		return err
	}
	caller, err := o.webhook.caller()
	if err != nil {
		return UsageError(command, err)
	}
	accepted, err := readAccepted(o.accept)
	if err != nil {
		return err
	}
	jobs, client, err := o.jobs(command.Context(), f, args)
	if err != nil {
		return err
	}
	report := &v1alpha1.RoundTripReport{TypeMeta: typeMeta(v1alpha1.KindRoundTripReport), Items: []v1alpha1.RoundTrip{}}
	for _, job := range jobs {
		item, err := o.one(command.Context(), f, client, caller, job)
		if err != nil {
			return err
		}
		report.Items = append(report.Items, *item)
	}
	if o.writeAccept != "" {
		accepted = roundtrip.Expected(report, accepted)
		if err := writeAccepted(o.writeAccept, accepted); err != nil {
			return err
		}
	}
	for _, unused := range roundtrip.Accept(report, accepted) {
		f.Warn(fmt.Sprintf("%s: %s -> %s: %s %s by %s was accepted and is not found any more", unused.CRD, unused.From, unused.To, unused.Path, unused.Change, unused.Stage))
	}
	if err := printer.Print(f.Out, o.document(report)); err != nil {
		return err
	}
	return o.outcome(report.Summary)
}

// outcome returns the error for the exit code.
func (o *roundtripOptions) outcome(s v1alpha1.RoundTripSummary) error {
	switch {
	case s.Lost > 0, s.Changed > 0, s.Failed > 0, o.strict && s.Appeared > 0:
		return Pending()
	case s.Open > 0:
		return fmt.Errorf("%s: that nothing is lost is not proven", english.Plural(s.Open, "open question"))
	}
	return nil
}

// roundtripJob is one CRD, and the objects of it, if they are not live ones.
type roundtripJob struct {
	crd     crd.CRD
	objects []map[string]any
}

// jobs returns what to look at. The client is nil without a cluster.
func (o *roundtripOptions) jobs(ctx context.Context, f *Factory, args []string) ([]roundtripJob, cluster.Interface, error) {
	if o.files.RequireFilenameOrKustomize() == nil {
		return o.fileJobs(ctx, f)
	}
	client, err := f.Cluster()
	if err != nil {
		return nil, nil, err
	}
	var jobs []roundtripJob
	err = source.Each(ctx, client.CRDs(), args, source.Selection{}, func(one crd.CRD) error {
		served := one.Served()
		goes := func(version string) bool { return version == "" || slices.Contains(served, version) }
		switch {
		case len(args) == 0 && (!goes(o.from) || !goes(o.to)):
		case len(served) > 1:
			jobs = append(jobs, roundtripJob{crd: one})
		case len(args) > 0:
			f.tell("%s has one served version: there is nothing to convert to\n", printers.Escape(one.Name))
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if len(jobs) == 0 && len(args) == 0 {
		f.tell("No CRD has two served versions to go between\n")
	}
	return jobs, client, nil
}

// fileJobs returns the CRDs of manifests, and those of the objects in them.
func (o *roundtripOptions) fileJobs(ctx context.Context, f *Factory) ([]roundtripJob, cluster.Interface, error) {
	input, err := readObjects(ctx, f, o.files)
	if err != nil {
		return nil, nil, err
	}
	client, err := f.Cluster()
	if err != nil {
		client = nil // It may not be needed.
	}
	known := &definitions{crds: slices.Clone(input.crds), client: client}
	var jobs []roundtripJob
	index := map[schema.GroupKind]int{}
	for _, one := range input.crds {
		index[schema.GroupKind{Group: one.Spec.Group, Kind: one.Spec.Names.Kind}] = len(jobs)
		jobs = append(jobs, roundtripJob{crd: one})
	}
	for _, object := range input.objects {
		kind := object.GroupVersionKind().GroupKind()
		at, ok := index[kind]
		if !ok {
			one, err := known.of(ctx, kind)
			switch {
			case err != nil:
				return nil, nil, err
			case one == nil && client == nil:
				return nil, nil, fmt.Errorf("%s %s: no CRD of its kind is among the manifests, and no cluster is configured", kind.Kind, object.GetName())
			case one == nil:
				return nil, nil, fmt.Errorf("%s %s: no CRD has the kind %s of the group %q", kind.Kind, object.GetName(), kind.Kind, kind.Group)
			}
			at = len(jobs)
			index[kind] = at
			jobs = append(jobs, roundtripJob{crd: *one})
		}
		jobs[at].objects = append(jobs[at].objects, object.Object)
	}
	for i := range jobs {
		if jobs[i].objects == nil {
			jobs[i].objects = []map[string]any{} // Not those of the cluster.
		}
	}
	if len(jobs) == 0 {
		return nil, nil, errors.New("there are neither CRDs nor custom resources in the manifests")
	}
	return jobs, client, nil
}

// one finds out what becomes of the objects of one CRD.
func (o *roundtripOptions) one(ctx context.Context, f *Factory, client cluster.Interface, caller review.Caller, job roundtripJob) (*v1alpha1.RoundTrip, error) {
	namespace, explicit, err := f.Namespace()
	if err != nil {
		return nil, err
	}
	if !explicit {
		namespace = ""
	}
	show, end := printers.NewCounter(f.ErrOut, job.crd.Name)
	defer end()
	item, err := roundtrip.Run(ctx, client, roundtrip.Options{
		CRD: job.crd, Objects: job.objects, From: o.from, To: o.to, Sample: o.sample, All: o.all,
		Namespace: namespace, Selector: o.selector, Generate: o.generate, ShowValues: o.showValues,
		FieldManager: lifecycle.FieldManager, Caller: caller, Progress: show,
	})
	if err != nil {
		return nil, err
	}
	return item, nil
}

// document returns the report in all its forms.
func (o *roundtripOptions) document(report *v1alpha1.RoundTripReport) printers.Document {
	document := printers.Document{
		Object: report,
		Text:   func(w io.Writer, wide bool) error { return printers.WriteRoundTrip(w, report, wide) },
		More: map[string]func(io.Writer) error{
			formatJUnit: func(w io.Writer) error {
				return printers.WriteJUnit(w, "kubectl crdver", printers.RoundTripCases(report, func(d v1alpha1.RoundTripDifference) bool {
					return d.Change != v1alpha1.ChangeAppeared || o.strict
				}))
			},
		},
	}
	for _, item := range report.Items {
		document.Items = append(document.Items, item)
		document.Names = append(document.Names, crdName(item.CRD))
	}
	return document
}

// readAccepted reads the file of --accept.
func readAccepted(file string) ([]v1alpha1.AcceptedDifference, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--accept: %w", err)
	}
	var document v1alpha1.AcceptedDifferences
	if err := yaml.UnmarshalStrict(text, &document); err != nil {
		return nil, fmt.Errorf("--accept %s: %w", file, err)
	}
	if want := typeMeta(v1alpha1.KindAcceptedDifferences); document.TypeMeta != want {
		return nil, fmt.Errorf("--accept %s: it is not a document of the kind %s, apiVersion %s", file, want.Kind, want.APIVersion)
	}
	return document.Items, nil
}

// writeAccepted writes the file of --write-accept.
func writeAccepted(file string, items []v1alpha1.AcceptedDifference) error {
	text, err := yaml.Marshal(v1alpha1.AcceptedDifferences{TypeMeta: typeMeta(v1alpha1.KindAcceptedDifferences), Items: items})
	if err != nil {
		return fmt.Errorf("--write-accept: %w", err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("--write-accept: %w", err)
	}
	return nil
}

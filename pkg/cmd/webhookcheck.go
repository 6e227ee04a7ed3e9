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
	"github.com/crdver/kubectl-crdver/pkg/conversion/doctor"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

const webhookCheckLong = `Examine the conversion webhooks of CRDs: whether the API server can call them, and
whether they answer as it demands. The checks are in this order, and end where one
fails that leaves nothing to check after it:

  configuration   what "validate" says of spec.conversion
  service         the service is there, with the port and ready endpoints
  tls             the certificate is signed by caBundle, for the right name, and
                  how many days are left
  reachability    it answers
  latency         how long calls take; the API server gives up after 30s
  protocol        one check for each thing that ConversionReview demands, with
                  ordinary and with unusual objects: parts of objects, unknown
                  fields, 500 at once, one of 1.5 MB
  semantics       objects are converted to each other version and back, and
                  compared: up to --sample live ones, or samples that are
                  generated from the schemas

A webhook behind a service is called through the API server's service proxy, which
takes the right to create services/proxy; --via direct calls it from here. --url
calls one that is under development. With -f no cluster is contacted.

Nothing is written to the cluster. The exit code is 2 if a check fails.`

const webhookCheckExample = `  # All conversion webhooks of a cluster
  kubectl crdver webhook-check

  # One, with what the API server demands
  kubectl crdver webhook-check crontabs.example.com -o wide

  # A webhook under development, without a cluster; custom resources are samples
  kubectl crdver webhook-check -f crd.yaml -f examples/ --url https://localhost:9443/convert --ca ca.crt

  # The certificate of one in a cluster, from outside
  kubectl port-forward -n NAMESPACE service/NAME 9443:443 &
  kubectl crdver webhook-check crontabs.example.com --url https://localhost:9443/convert

  # For a test report
  kubectl crdver webhook-check -f crd.yaml --url https://localhost:9443/convert --ca ca.crt -o junit`

const (
	// defaultCalls is how many calls are measured.
	defaultCalls = 50
	// defaultTrips is how many objects make the round trip, for each pair of versions.
	defaultTrips = 500
	// The ways to a webhook.
	viaServer = "server"
	viaDirect = "direct"
)

type webhookCheckOptions struct {
	read       readFlags
	webhook    webhookFlags
	via        string
	calls      int
	sample     int64
	showValues bool
	skip       []string
	print      *printers.Flags
}

func newWebhookCheckCommand(f *Factory) *cobra.Command {
	o := webhookCheckOptions{print: printers.NewFlags(formatJUnit)}
	command := &cobra.Command{
		Use:               "webhook-check [CRD...]",
		Short:             "Examine conversion webhooks: certificate, protocol, round trips",
		Long:              webhookCheckLong,
		Example:           webhookCheckExample,
		ValidArgsFunction: completeCRDs(f),
		RunE:              func(command *cobra.Command, args []string) error { return o.run(f, command, args) },
	}
	o.read.add(command)
	flags := command.Flags()
	flags.StringVar(&o.via, "via", "", "How to call the webhook: server (through the API server; the default for services) or direct (the default for URLs)")
	flags.StringVar(&o.webhook.url, "url", "", "URL to call the webhook at, instead of what the CRD configures")
	flags.StringVar(&o.webhook.ca, "ca", "", "File with the certificates to check that of --url against; without it, caBundle of the CRD, for the name that it configures")
	flags.IntVar(&o.calls, "calls", defaultCalls, "How many calls to measure")
	flags.Int64Var(&o.sample, "sample", defaultTrips, "How many live objects to convert there and back for each pair of versions, spread over the namespaces")
	flags.BoolVar(&o.showValues, "show-values", false, "Show messages of the webhook about live objects, which may hold values")
	flags.StringSliceVar(&o.skip, "skip", nil, "Leave out these checks")
	AddTimeoutFlag(command, "Give up after this time")
	o.print.AddFlags(command)
	completeFlag(command, "via", viaServer, viaDirect)
	completeFlag(command, "skip", webhookCheckNames()...)
	completeFlag(command, "output", o.print.Formats()...)
	_ = command.MarkFlagFilename("ca", "crt", "pem") // The only error is about a flag that does not exist.
	return command
}

func (o *webhookCheckOptions) check(command *cobra.Command, args []string) error {
	switch {
	case o.via != "" && o.via != viaServer && o.via != viaDirect:
		return UsageErrorf(command, "--via %s: it must be server or direct", o.via)
	case o.via == viaServer && o.webhook.url != "":
		return UsageErrorf(command, "--url is called from here: leave out --via server")
	case o.via == viaServer && o.read.local():
		return UsageErrorf(command, "--via server needs a cluster: leave out -f and -k, or give --url")
	case o.webhook.ca != "" && o.webhook.url == "":
		return UsageErrorf(command, "--ca belongs to --url")
	case o.calls < 0:
		return UsageErrorf(command, "--calls %d: it must be at least 0", o.calls)
	case o.sample < 1:
		return UsageErrorf(command, "--sample %d: it must be at least 1", o.sample)
	}
	for _, name := range o.skip {
		if !slices.Contains(webhookCheckNames(), name) {
			return UsageErrorf(command, "--skip %s: there is no such check", name)
		}
	}
	return o.read.validate(command, args)
}

func (o *webhookCheckOptions) run(f *Factory, command *cobra.Command, args []string) error {
	printer, err := printerOf(command, o.print)
	if err != nil {
		return err
	}
	if err := o.check(command, args); err != nil {
		return err
	}
	ctx := command.Context()
	patients, err := o.patients(ctx, f, args)
	if err != nil {
		return err
	}
	report := &v1alpha1.WebhookCheckReport{TypeMeta: typeMeta(v1alpha1.KindWebhookCheckReport), Items: []v1alpha1.CheckedWebhook{}}
	var problems []error
	for _, one := range patients {
		item, err := o.examine(ctx, one)
		if ctx.Err() != nil {
			return fmt.Errorf("examining webhooks: %w", ctx.Err())
		}
		if err != nil {
			problems = append(problems, err)
		}
		report.Items = append(report.Items, item)
	}
	report.Summary = checkSummary(report.Items)
	if len(report.Items) == 0 {
		f.tell("No conversion webhooks found\n")
	}
	if err := printer.Print(f.Out, webhookCheckDocument(report)); err != nil {
		return err
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	if report.Summary.Failed > 0 {
		return Pending()
	}
	return nil
}

// examine examines one webhook.
func (o *webhookCheckOptions) examine(ctx context.Context, one patient) (v1alpha1.CheckedWebhook, error) {
	now := time.Now()
	way, err := o.way(one)
	if err != nil {
		return v1alpha1.CheckedWebhook{CRD: one.state.CRD.Name, Origin: one.state.CRD.Origin.String(), Stopped: err.Error(), Checks: []v1alpha1.WebhookCheck{}}, err
	}
	options := doctor.Options{
		CRD: one.state.CRD, Caller: way.caller, TLS: way.tls, Before: before(ctx, one, way, now),
		Calls: o.calls, ShowValues: o.showValues, Skip: o.skip, Now: now,
	}
	switch {
	case len(one.objects) > 0:
		options.Source = doctor.NewFiles(one.state.CRD, one.objects)
	case one.client != nil:
		options.Source = doctor.NewLive(one.client, one.state.CRD, o.sample)
	}
	item, err := doctor.Check(ctx, options)
	item.Via = way.via
	return item, err
}

func checkSummary(items []v1alpha1.CheckedWebhook) v1alpha1.CheckSummary {
	summary := v1alpha1.CheckSummary{Webhooks: len(items)}
	for _, item := range items {
		for _, check := range item.Checks {
			switch check.Result {
			case v1alpha1.CheckOK:
				summary.OK++
			case v1alpha1.CheckFailed:
				summary.Failed++
			case v1alpha1.CheckWarning:
				summary.Warnings++
			case v1alpha1.CheckSkipped:
				summary.Skipped++
			}
		}
	}
	return summary
}

// webhookCheckDocument returns the report in all its forms.
func webhookCheckDocument(report *v1alpha1.WebhookCheckReport) printers.Document {
	document := printers.Document{
		Object: report,
		Text: func(w io.Writer, wide bool) error {
			if len(report.Items) == 0 {
				return nil
			}
			return printers.WriteWebhookChecks(w, report, printers.TableOptions{Wide: wide})
		},
		More: map[string]func(io.Writer) error{
			formatJUnit: func(w io.Writer) error {
				return printers.WriteJUnit(w, "kubectl crdver", printers.WebhookCheckCases(report))
			},
		},
	}
	for _, item := range report.Items {
		for _, check := range item.Checks {
			document.Items = append(document.Items, check)
			if check.Result == v1alpha1.CheckFailed {
				document.Names = append(document.Names, crdName(item.CRD))
			}
		}
	}
	return document
}

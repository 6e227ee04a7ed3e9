package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/conversion/review"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// Limit is when the API server gives up on a call (webhook_converter.go).
const Limit = 30 * time.Second

// Options say what to examine.
type Options struct {
	CRD crd.CRD
	// Caller calls the webhook. TLS is what can be seen of its certificate.
	Caller review.Caller
	TLS    TLS
	// Source has the objects to convert.
	Source Source
	// Before are the checks that were made already: of the configuration, of
	// the service. One of a service that failed ends the examination.
	Before []v1alpha1.WebhookCheck
	// Calls is how many calls are measured.
	Calls int
	// Limit is when a call counts as not answered; 0 means [Limit].
	Limit time.Duration
	// ShowValues allows messages of the webhook to be shown where the objects are
	// users' own: they can hold values.
	ShowValues bool
	// Skip are the names of checks to leave out.
	Skip []string
	// Now is the time that certificates are checked against.
	Now time.Time
}

// examination is one run.
type examination struct {
	Options

	report   v1alpha1.CheckedWebhook
	versions []string
	reviews  string
	// samples are a few objects of each version.
	samples samples
	tally   *tally
	calls   callCounts
	// private says that samples are users' own.
	private bool
	// noRoundTrips is why comparing what is converted would prove nothing.
	noRoundTrips string
}

// Check examines a webhook. The error is one that keeps it from being examined at
// all: the context ended, or the caller may not do what it takes.
func Check(ctx context.Context, o Options) (v1alpha1.CheckedWebhook, error) {
	if o.Limit == 0 {
		o.Limit = Limit
	}
	e := &examination{Options: o, versions: o.CRD.Served(), reviews: review.VersionOf(o.CRD), tally: newTally()}
	e.report = v1alpha1.CheckedWebhook{CRD: o.CRD.Name, Origin: o.CRD.Origin.String(), Checks: []v1alpha1.WebhookCheck{}}
	if o.Caller != nil {
		e.report.Webhook = o.Caller.String()
	}
	for _, check := range o.Before {
		e.put(check)
	}
	err := e.run(ctx)
	e.sort()
	if ctx.Err() != nil {
		return e.report, fmt.Errorf("examining the webhook of %s: %w", o.CRD.Name, ctx.Err())
	}
	var stop *stopError
	if errors.As(err, &stop) {
		e.report.Stopped = stop.why
		return e.report, nil
	}
	return e.report, err
}

// sort puts the checks into the order of their stages: some are told earlier or
// later than others of their stage.
func (e *examination) sort() {
	stages := []v1alpha1.CheckStage{
		v1alpha1.CheckStageConfiguration, v1alpha1.CheckStageService, v1alpha1.CheckStageTLS, v1alpha1.CheckStageReachability,
		v1alpha1.CheckStageLatency, v1alpha1.CheckStageProtocol, v1alpha1.CheckStageSemantics,
	}
	slices.SortStableFunc(e.report.Checks, func(a, b v1alpha1.WebhookCheck) int {
		return slices.Index(stages, a.Stage) - slices.Index(stages, b.Stage)
	})
}

// stopError ends the examination: what comes after would only say the same again.
type stopError struct{ why string }

func (s *stopError) Error() string { return s.why }

func (e *examination) run(ctx context.Context) error {
	for _, check := range e.report.Checks {
		if check.Stage == v1alpha1.CheckStageService && check.Result == v1alpha1.CheckFailed {
			return &stopError{fmt.Sprintf("nothing can be called: %s", check.Message)}
		}
	}
	for _, stage := range []func(context.Context) error{e.tls, e.prepare, e.reach, e.measure, e.conform, e.state, e.handle, e.reliable, e.roundTrips} {
		if err := stage(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// put adds a check to the report, unless it is one to skip.
func (e *examination) put(check v1alpha1.WebhookCheck) {
	if slices.Contains(e.Skip, check.Name) {
		return
	}
	if check.Protocol == "" {
		check.Protocol = protocol(check.Name)
	}
	e.report.Checks = append(e.report.Checks, check)
}

func (e *examination) add(stage v1alpha1.CheckStage, name string, result v1alpha1.CheckResult, format string, args ...any) {
	e.put(v1alpha1.WebhookCheck{Stage: stage, Name: name, Result: result, Message: fmt.Sprintf(format, args...)})
}

// verdict adds a check that failed with a message, or is ok without one.
func (e *examination) verdict(name, failure string, worst v1alpha1.CheckResult, ok string) {
	if failure != "" {
		e.add(v1alpha1.CheckStageProtocol, name, worst, "%s", failure)
		return
	}
	e.add(v1alpha1.CheckStageProtocol, name, v1alpha1.CheckOK, "%s", ok)
}

// pairs are the ordered pairs of served versions.
func (e *examination) pairs() []pair {
	var all []pair
	for _, from := range e.versions {
		for _, to := range e.versions {
			if from != to {
				all = append(all, pair{from, to})
			}
		}
	}
	return all
}

// pair is one direction of conversion.
type pair struct{ from, to string }

func (p pair) String() string { return p.from + " to " + p.to }

// apiVersion returns "GROUP/VERSION".
func (e *examination) apiVersion(version string) string { return e.CRD.Spec.Group + "/" + version }

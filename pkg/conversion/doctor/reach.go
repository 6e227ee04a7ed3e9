package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// The parts of the API server's limit from which on latency is worth a word: a
// list converts its objects with one call each.
const (
	slowPart     = 30
	tooSlowPart  = 3
	measureParts = 2
)

// reach makes the first call.
func (e *examination) reach(ctx context.Context) error {
	one := e.pairs()[0]
	a := e.send(ctx, e.reviews, e.samples.objects[one.from][:1], e.apiVersion(one.to))
	if err := a.notAllowed(); err != nil {
		e.add(v1alpha1.CheckStageReachability, checkReachable, v1alpha1.CheckSkipped, "you may not call it through the API server")
		e.report.Stopped = "you may not call the webhook through the API server: that takes the right to create services/proxy"
		return fmt.Errorf("calling the webhook of %s: %w", e.CRD.Name, err)
	}
	if apierrors.IsServiceUnavailable(a.err) && e.converts() {
		// The proxy goes to endpoints that are pods, and to no others (ResourceLocation).
		e.add(v1alpha1.CheckStageReachability, checkReachable, v1alpha1.CheckSkipped, "%s", a.failure(e.Limit))
		return &stopError{"the API server itself reaches the webhook, but its proxy, which goes to pods only, does not: call it with --via direct or --url"}
	}
	if a.err != nil {
		e.add(v1alpha1.CheckStageReachability, checkReachable, v1alpha1.CheckFailed, "%s", a.failure(e.Limit))
		return &stopError{"the webhook cannot be reached"}
	}
	e.add(v1alpha1.CheckStageReachability, checkReachable, v1alpha1.CheckOK, "HTTP status %d after %s", a.response.Status, short(a.response.Took))
	return nil
}

// converts reports whether the API server was seen to convert with the webhook.
func (e *examination) converts() bool {
	return slices.ContainsFunc(e.Before, func(check v1alpha1.WebhookCheck) bool {
		return check.Stage == v1alpha1.CheckStageReachability && check.Result == v1alpha1.CheckOK
	})
}

// measure makes calls one after the other, as the API server does for a list.
func (e *examination) measure(ctx context.Context) error {
	one := e.pairs()[0]
	objects, to := e.samples.objects[one.from][:1], e.apiVersion(one.to)
	latency := v1alpha1.WebhookLatency{Limit: metav1.Duration{Duration: e.Limit}}
	var took []time.Duration
	var failure string
	for begin := time.Now(); latency.Calls < e.Calls && time.Since(begin) < measureParts*e.Limit; {
		a := e.once(ctx, e.reviews, objects, to)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		latency.Calls++
		if a.err != nil || a.brokenDown() {
			latency.Failed++
			failure = a.failure(e.Limit)
		}
		if a.err == nil {
			took = append(took, a.response.Took)
		}
	}
	if latency.Calls == 0 {
		e.add(v1alpha1.CheckStageLatency, checkLatency, v1alpha1.CheckSkipped, "no calls were asked for")
		return nil
	}
	e.report.Latency = &latency
	if len(took) == 0 {
		e.add(v1alpha1.CheckStageLatency, checkLatency, v1alpha1.CheckFailed, "none of %d calls was answered: %s", latency.Calls, failure)
		return &stopError{"the webhook does not answer"}
	}
	slices.Sort(took)
	latency.P50.Duration, latency.P99.Duration = percentile(took, 50), percentile(took, 99)
	latency.Max.Duration = took[len(took)-1]
	text := fmt.Sprintf("p50 %s, p99 %s over %d calls", short(latency.P50.Duration), short(latency.P99.Duration), latency.Calls)
	result := v1alpha1.CheckOK
	switch p99 := latency.P99.Duration; {
	case p99 > e.Limit/tooSlowPart:
		result = v1alpha1.CheckFailed
		text += fmt.Sprintf("; the API server gives up after %s", e.Limit)
	case p99 > e.Limit/slowPart:
		result = v1alpha1.CheckWarning
		text += fmt.Sprintf("; a list of 100 objects takes about %s", short(100*latency.P50.Duration))
	}
	e.add(v1alpha1.CheckStageLatency, checkLatency, result, "%s", text)
	return nil
}

// percentile returns the value that p percent of the sorted ones do not exceed.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[max((len(sorted)*p+99)/100-1, 0)]
}

// short writes a duration with as many digits as matter.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= 100*time.Millisecond:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	default:
		return d.Round(10 * time.Microsecond).String()
	}
}

// reliable says how many calls failed and were good when they were made again.
func (e *examination) reliable(context.Context) error {
	failed, made := int64(0), e.calls.made.Load()
	if l := e.report.Latency; l != nil {
		failed, made = int64(l.Failed), made+int64(l.Calls)
	}
	if failed += e.calls.recovered.Load(); failed > 0 {
		e.add(v1alpha1.CheckStageLatency, checkReliability, v1alpha1.CheckFailed, "%d of %d calls broke down, and were answered when made again", failed, made)
		return nil
	}
	e.add(v1alpha1.CheckStageLatency, checkReliability, v1alpha1.CheckOK, "all of %d calls that had to be answered were", made)
	return nil
}

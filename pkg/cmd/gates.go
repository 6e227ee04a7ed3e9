package cmd

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/executor"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// useFlags are the flags of commands that end the service of a version.
type useFlags struct {
	window    time.Duration
	allow     bool
	auditLogs []string
}

func (u *useFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.DurationVar(&u.window, "usage-window", defaultUsageWindow, "How old evidence of use may be to keep the version served")
	flags.BoolVar(&u.allow, "allow-in-use", false, "Stop serving the version although there is evidence that it is in use: these clients fail")
	flags.StringArrayVar(&u.auditLogs, "audit-log", nil, "Audit logs of the API servers, which tell of readers, too: a file, or a directory with all that was rotated; JSON lines, also with gzip")
}

func (u *useFlags) validate(command *cobra.Command) error {
	if u.window <= 0 {
		return UsageErrorf(command, "--usage-window %s: it must be longer than 0; --allow-in-use does without", u.window)
	}
	if slices.Contains(u.auditLogs, "") || slices.Contains(u.auditLogs, "-") {
		return UsageErrorf(command, "--audit-log: name a file or a directory; it is read more than once")
	}
	return nil
}

// into puts the flags into an intent.
func (u *useFlags) into(intent v1alpha1.Intent) v1alpha1.Intent {
	intent.UsageWindow, intent.AllowInUse = &metav1.Duration{Duration: u.window}, u.allow
	return intent
}

// gateWords are the flags of an intent for a command to paste.
func (c *change) gateWords(intent v1alpha1.Intent, option func(flag, value string), toggle func(flag string, on bool)) {
	if intent.UsageWindow != nil && intent.UsageWindow.Duration != defaultUsageWindow {
		option("--usage-window", intent.UsageWindow.Duration.String())
	}
	toggle("--allow-in-use", intent.AllowInUse)
	if intent.UsageWindow != nil {
		for _, log := range c.auditLogs {
			option("--audit-log", log)
		}
	}
	if intent.Soak != nil {
		option("--soak", intent.Soak.Duration.String())
	}
	if b := intent.Brownout; b != nil {
		option("--for", b.For.Duration.String())
		if b.Repeat > 1 && b.Every != nil {
			option("--repeat", strconv.Itoa(b.Repeat))
			option("--every", b.Every.Duration.String())
		}
	}
}

// serverTime is the clock that all machines have in common.
func (c *change) serverTime(ctx context.Context) (time.Time, error) {
	if c.clock != nil {
		return c.clock(), nil
	}
	at, err := c.cluster.Time(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the time of the API server: %w", err)
	}
	return at, nil
}

// withClock adds what tells whether a brownout or a soak is over. For looking, the
// clock of this machine is good enough.
func withClock(one crd.CRD, o lifecycle.Observations) lifecycle.Observations {
	o.Now = now()
	if hold, err := lifecycle.ReadHold(one.Annotations); err == nil && hold != nil {
		o.HoldGone = gone(*hold)
	}
	if brownout, err := lifecycle.ReadBrownout(one); err == nil && brownout != nil {
		o.BrownoutGone = gone(v1alpha1.Hold{Process: brownout.Process})
	}
	return o
}

// gateObservations looks at what the gates of a plan ask for.
func (c *change) gateObservations(ctx context.Context, one crd.CRD, intent v1alpha1.Intent, quick bool, into *lifecycle.Observations) error {
	_, soaks := one.Annotations[lifecycle.SoakAnnotation]
	_, browns := one.Annotations[lifecycle.BrownoutAnnotation]
	_, proven := one.Annotations[lifecycle.VerifiedAnnotation]
	if soaks || browns || proven || intent.Soak != nil {
		var err error
		if into.Now, err = c.serverTime(ctx); err != nil {
			return err
		}
	}
	if brownout, err := lifecycle.ReadBrownout(one); err == nil && brownout != nil {
		into.BrownoutGone = gone(v1alpha1.Hold{Process: brownout.Process})
	}
	if quick || intent.UsageWindow == nil || one.Version(intent.Version) == nil || one.StorageVersion() == intent.Version {
		return nil
	}
	var err error
	into.Usage, err = c.usageOf(ctx, one, intent)
	return err
}

// usageOf looks who uses the version of an intent, where that costs little: who
// wrote the objects, who names the version and acts by itself, and audit logs.
// The metrics of API servers count from their start, and say nothing of the last
// day: kubectl crdver usage --watch does.
func (c *change) usageOf(ctx context.Context, one crd.CRD, intent v1alpha1.Intent) (*v1alpha1.VersionUsage, error) {
	targets := []usage.Target{{CRD: one, Versions: []string{intent.Version}}}
	around := usage.Around(c.cluster, targets)
	looking := []usage.Collector{&usage.Writers{Client: c.cluster}, around.ArgoCD(), around.Flux()}
	clock := now
	if c.clock != nil {
		clock = c.clock
	}
	if len(c.auditLogs) > 0 {
		audit, err := usage.ReadAudit(ctx, usage.AuditOptions{Logs: c.auditLogs, Window: intent.UsageWindow.Duration, Now: clock()}, targets)
		if err != nil {
			return nil, err
		}
		looking = append(looking, audit)
	}
	options := usage.Options{Window: intent.UsageWindow.Duration, Now: clock}
	report, err := usage.Report(ctx, looking, targets, options, func(usage.Target) string {
		return c.resume(v1alpha1.Intent{Verb: "usage", Version: intent.Version}, one.Name)
	})
	if err != nil {
		return nil, err
	}
	return &report.Items[0], nil
}

// gates is what the executor asks around ending the service of a version.
func (c *change) gates(p v1alpha1.Plan) executor.Gates {
	name, intent := p.Target.CRD.Name, p.Intent
	back := v1alpha1.Intent{Verb: v1alpha1.VerbRestore, Version: intent.Version}
	removed := back
	removed.DefinitionSource = "MANIFEST"
	gates := executor.Gates{
		Time: c.serverTime, By: holderName(), Process: thisProcess(),
		Back: c.resume(back, name), BackRemoved: c.resume(removed, name),
	}
	switch intent.Verb {
	case v1alpha1.VerbRetire, v1alpha1.VerbBrownout:
	default:
		gates.Back, gates.BackRemoved = "", ""
		return gates
	}
	find := func(ctx context.Context) (crd.CRD, error) {
		found, err := c.cluster.CRDs().Get(ctx, name)
		return crd.CRD{CustomResourceDefinition: found}, err
	}
	gates.Usage = func(ctx context.Context) (*v1alpha1.VersionUsage, error) {
		one, err := find(ctx)
		if err != nil {
			return nil, err
		}
		return c.usageOf(ctx, one, intent)
	}
	if len(c.auditLogs) > 0 {
		gates.Requests = func(ctx context.Context, during []usage.Span) ([]v1alpha1.UsageEvidence, []string, error) {
			one, err := find(ctx)
			if err != nil {
				return nil, nil, err
			}
			return c.requestsDuring(ctx, one, intent.Version, during)
		}
	}
	return gates
}

// requestsDuring returns the requests at a version, while it was not served, that were
// answered 404, by client, without those of clients that use whichever version there is.
func (c *change) requestsDuring(ctx context.Context, one crd.CRD, version string, during []usage.Span) ([]v1alpha1.UsageEvidence, []string, error) {
	target := usage.Target{CRD: one, Versions: []string{version}}
	audit, err := usage.ReadAudit(ctx, usage.AuditOptions{Logs: c.auditLogs, During: during}, []usage.Target{target})
	if err != nil {
		return nil, nil, err
	}
	found, unlooked, err := audit.Collect(ctx, target)
	if err != nil {
		return nil, nil, err
	}
	notFound := func(verb v1alpha1.UsageVerb) bool { return verb.Code == http.StatusNotFound && !verb.Missing }
	found = slices.DeleteFunc(found, func(e v1alpha1.UsageEvidence) bool {
		return e.Proves != v1alpha1.ProvesUse || e.Requests == nil || !slices.ContainsFunc(e.Requests.Verbs, notFound)
	})
	var unread []string
	for _, missing := range unlooked {
		unread = append(unread, missing.Why)
	}
	return found, unread, nil
}

// waits reports whether a plan changes nothing, because a soak is under way.
func waits(p v1alpha1.Plan) bool {
	return !slices.ContainsFunc(p.Steps, func(s v1alpha1.Step) bool { return s.Action != v1alpha1.ActionSoak || s.Marks != "" })
}

// failedMeanwhile reports whether a brownout showed that something depends on the version.
func failedMeanwhile(report v1alpha1.Report) bool {
	return report.Brownout != nil && len(report.Brownout.Clients)+len(report.Brownout.Affected) > 0
}

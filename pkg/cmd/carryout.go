package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/english"
	"github.com/crdver/kubectl-crdver/pkg/executor"
	"github.com/crdver/kubectl-crdver/pkg/printers"
)

// run makes the plans for the CRDs and carries them out.
func (c *change) run(ctx context.Context, crds []crd.CRD, intent func(crd.CRD) v1alpha1.Intent) error {
	plans := make([]v1alpha1.Plan, 0, len(crds))
	for _, one := range crds {
		p, err := c.planFor(ctx, one, intent(one), false)
		if err != nil {
			return err
		}
		plans = append(plans, p)
	}
	if err := noneSelected(plans); err != nil {
		return err
	}
	return c.carryOut(ctx, plans)
}

// carryOut shows the plans, asks, executes them and prints the reports; or, on
// a dry run, only the plans.
func (c *change) carryOut(ctx context.Context, plans []v1alpha1.Plan) error {
	if c.flags.planOut != "" {
		if err := c.savePlans(plans); err != nil {
			return err
		}
	}
	if c.flags.dryRun != "none" || c.flags.planOut != "" {
		return c.showOnly(plans)
	}
	for _, p := range plans {
		if err := printers.WritePlan(c.ErrOut, p, printers.TerminalWidth(c.ErrOut)); err != nil {
			return fmt.Errorf("printing the plan: %w", err)
		}
	}
	if err := c.ask(ctx, plans); err != nil {
		return c.notRun(ctx, plans, err)
	}
	if err := c.openFailures(plans); err != nil {
		return err
	}
	// To the end: the exit code says what came of it, whoever still reads the report.
	c.keepGoing()
	reports, err := c.execute(ctx, plans)
	if printErr := c.printReports(reports); printErr != nil && !outputClosed(printErr) {
		return errors.Join(err, printErr)
	}
	return err
}

// notRun reports plans that were not carried out to a program that reads the
// document; people have just seen the plans.
func (c *change) notRun(ctx context.Context, plans []v1alpha1.Plan, why error) error {
	if c.flags.output == "" {
		return why
	}
	reports := make([]v1alpha1.Report, 0, len(plans))
	for _, p := range plans {
		reports = append(reports, executor.NotRun(ctx, p, why, now()))
	}
	return errors.Join(why, c.printReports(reports))
}

// showOnly prints the plans on standard output; it is the whole of a dry run.
func (c *change) showOnly(plans []v1alpha1.Plan) error {
	if c.flags.output != "" {
		if err := c.printDocument(planDocument(plans)); err != nil {
			return err
		}
	} else {
		for _, p := range plans {
			if err := printers.WritePlan(c.Out, p, printers.TerminalWidth(c.Out)); err != nil {
				return fmt.Errorf("printing the plan: %w", err)
			}
			if _, err := fmt.Fprintf(c.Out, "customresourcedefinition.apiextensions.k8s.io/%s %s%s\n",
				p.Target.CRD.Name, pendingVerb(p), c.dryRunNote()); err != nil {
				return fmt.Errorf("printing the plan: %w", err)
			}
		}
	}
	if err := blocked(plans); err != nil {
		return err
	}
	if c.flags.detailedExitCode && todo(plans) > 0 {
		return Pending()
	}
	return nil
}

// pendingVerb says what a plan would do.
func pendingVerb(p v1alpha1.Plan) string {
	switch {
	case !p.Applyable:
		return "blocked"
	case len(p.Steps) == 0:
		return "unchanged"
	default:
		return fmt.Sprintf("would take %s", english.Plural(len(p.Steps), "step"))
	}
}

// blocked returns the refusal for plans that nothing can be done about here.
func blocked(plans []v1alpha1.Plan) error {
	var names []string
	var message string
	for _, p := range plans {
		if !p.Applyable {
			names = append(names, p.Target.CRD.Name)
			message = p.Blockers[0].Message
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return Refused(fmt.Errorf("the plan for %s is blocked: %s", names[0], message))
	default:
		return Refused(fmt.Errorf("the plans for %s are blocked", strings.Join(names, ", ")))
	}
}

// todo counts the plans that change something and may.
func todo(plans []v1alpha1.Plan) int {
	n := 0
	for _, p := range plans {
		if p.Applyable && len(p.Steps) > 0 && !waits(p) {
			n++
		}
	}
	return n
}

// savePlans writes the plans to --plan-out, readable by nobody else: they name
// objects and say what somebody is about to do.
func (c *change) savePlans(plans []v1alpha1.Plan) error {
	data, err := yaml.Marshal(planDocument(plans))
	if err != nil {
		return fmt.Errorf("encoding the plan: %w", err)
	}
	if err := os.WriteFile(c.flags.planOut, data, 0o600); err != nil {
		return fmt.Errorf("saving the plan: %w", err)
	}
	if blocked(plans) == nil {
		c.tell("Plan saved. To carry it out: kubectl crdver apply -f %s\n", c.flags.planOut)
	}
	return nil
}

// planDocument returns one document for any number of plans.
func planDocument(plans []v1alpha1.Plan) runtime.Object {
	if len(plans) == 1 {
		return &plans[0]
	}
	return &v1alpha1.PlanList{TypeMeta: typeMeta(v1alpha1.KindPlanList), Items: plans}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: kind}
}

// execute runs the plans one after the other. A plan that is blocked or that
// stops does not keep the others from running; an interrupt does.
func (c *change) execute(ctx context.Context, plans []v1alpha1.Plan) ([]v1alpha1.Report, error) {
	progress := printers.NewProgress(c.ErrOut, printers.ProgressMode(c.flags.progress))
	progress.Alone = len(plans) == 1
	defer progress.End()
	defer c.answerStatus(progress)()
	var reports []v1alpha1.Report
	var worst error
	for _, p := range plans {
		name := p.Target.CRD.Name
		report, err := executor.Run(ctx, p, executor.Options{
			Cluster:         c.cluster,
			FieldManager:    c.flags.fieldManager,
			Concurrency:     c.flags.concurrency,
			MaxConcurrency:  c.flags.maxConcurrency,
			QPS:             c.flags.qps,
			MaxBandwidth:    int64(c.flags.maxBandwidth),
			WebhookPatience: c.flags.webhookPatience,
			Stored:          c.storedNow(name),
			Replan:          c.replan(name, p.Intent),
			Confirm:         c.confirmStep(plans),
			Events:          progress.Show,
			Failed:          c.failures.add(name, progress.Show),
			Retry:           c.retries[name],
			Now:             now,
			Resume:          c.resume(p.Intent, name),
			Hold:            c.holdOptions(p.Intent),
			Gates:           c.gates(p),
		})
		if report.Resume != "" {
			report.Resume = c.resume(left(p, report.Outcome), name)
		}
		reports = append(reports, report)
		worst = worse(worst, stopped(name, p.Intent, report, err))
		switch {
		case err == nil && failedMeanwhile(report):
			worst = worse(worst, Pending())
		case err == nil && printers.EndsBrownout(p) && len(p.Steps) > 0:
			worst = worse(worst, Partial(fmt.Errorf("%s: nothing more was done than to end a brownout that an earlier run had not ended; "+
				"how clients fare now is to be seen first, and then: %s", name, report.Resume)))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return reports, c.failures.close(worst)
}

// left is the intent of the command that goes on after a run: the same, where it was
// stopped; where it came to its end, what is left is what it left out.
func left(p v1alpha1.Plan, outcome v1alpha1.Outcome) v1alpha1.Intent {
	intent := p.Intent
	switch outcome {
	case v1alpha1.OutcomeDone:
		intent.Namespace, intent.Selector, intent.Shard, intent.Verify, intent.Retry = "", "", "", "", nil
	case v1alpha1.OutcomeUnchanged:
	default:
		return intent
	}
	// One that waits for a soak, or that had to end a brownout first, did not come so far.
	if n := len(p.Steps); n == 0 || p.Steps[n-1].Action == intent.Until {
		intent.Until = ""
	}
	return intent
}

// stopped gives the error of an execution the exit code of its outcome.
func stopped(name string, intent v1alpha1.Intent, report v1alpha1.Report, err error) error {
	if err == nil {
		return nil
	}
	switch report.Outcome {
	case v1alpha1.OutcomeRefused:
		return Refused(fmt.Errorf("%s: %w", name, err))
	case v1alpha1.OutcomePartial:
		return Partial(fmt.Errorf("%s: %w", name, err))
	case v1alpha1.OutcomeInterrupted:
		return fmt.Errorf("%s of %s: %w%s", intent.Verb, name, err, toContinue(report))
	default:
		// The code is said here: a deadline inside of err need not be --timeout.
		return &ExitError{Code: ExitFailure, Err: fmt.Errorf("%s of %s: %w%s", intent.Verb, name, err, toContinue(report))}
	}
}

// toContinue says how to go on after a run that was stopped.
func toContinue(report v1alpha1.Report) string {
	if report.Resume == "" {
		return ""
	}
	return "; to continue: " + report.Resume
}

// worse returns the error that decides the exit code: an interrupt, then an
// error, then a refusal, then a partial result.
func worse(a, b error) error {
	rank := func(err error) int {
		switch {
		case err == nil:
			return 0
		case ExitCode(err) == ExitPartial, ExitCode(err) == ExitPending:
			return 1
		case ExitCode(err) == ExitRefused:
			return 2
		case ExitCode(err) == ExitFailure:
			return 3
		default:
			return 4
		}
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// printReports prints what came of the plans, on standard output.
func (c *change) printReports(reports []v1alpha1.Report) error {
	if c.flags.output != "" {
		if len(reports) == 1 {
			return c.printDocument(&reports[0])
		}
		return c.printDocument(&v1alpha1.ReportList{TypeMeta: typeMeta(v1alpha1.KindReportList), Items: reports})
	}
	for _, report := range reports {
		if err := printers.WriteReport(c.Out, report, printers.TerminalWidth(c.Out)); err != nil {
			return fmt.Errorf("printing the report: %w", err)
		}
	}
	return nil
}

// printDocument prints exactly one document.
func (c *change) printDocument(document runtime.Object) error {
	if err := printers.WriteDocument(c.Out, c.flags.output, document); err != nil {
		return fmt.Errorf("printing the result: %w", err)
	}
	return nil
}

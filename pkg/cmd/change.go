package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/observe"
	"github.com/crdver/kubectl-crdver/pkg/plan"
	"github.com/crdver/kubectl-crdver/pkg/source"
)

// changeFlags are the flags of every changing command.
type changeFlags struct {
	dryRun           string
	yes              bool
	output           string
	planOut          string
	fieldManager     string
	detailedExitCode bool
	progress         string
	concurrency      int
	maxConcurrency   int
	qps              float64
	maxBandwidth     bandwidthFlag
	webhookPatience  time.Duration
	takeOver         bool
	etcd             etcdFlags
	report           string
	verify           string

	// selection selects several CRDs.
	selection source.Selection
}

// add adds the flags that concern the plan and its execution.
func (c *changeFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&c.dryRun, "dry-run", "none", `Must be "none", "client" or "server": client only reads and prints the plan, server also sends every change with dryRun=All`)
	flags.Lookup("dry-run").NoOptDefVal = "unchanged"
	flags.BoolVarP(&c.yes, "yes", "y", false, "Do not ask")
	flags.StringVarP(&c.output, "output", "o", "", "Output format, json or yaml: the plan on a dry run, the report otherwise")
	flags.StringVar(&c.planOut, "plan-out", "", "Save the plan to this file and change nothing; run it with 'kubectl crdver apply -f FILE'")
	c.addExecution(command)
	completeDryRunFlag(command)
	completeFlag(command, "output", "json", "yaml")
}

// addExecution adds the flags that concern the execution alone.
func (c *changeFlags) addExecution(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&c.fieldManager, "field-manager", lifecycle.FieldManager, "Name of the manager used to track field ownership")
	flags.BoolVar(&c.detailedExitCode, "detailed-exitcode", false, "Exit with 2 when a dry run finds changes to make")
	c.addSpeed(command)
	flags.DurationVar(&c.webhookPatience, "webhook-patience", 3*time.Minute, "How long to wait for a conversion webhook that does not answer while objects are rewritten")
	flags.BoolVar(&c.takeOver, "take-over", false, "Take the place of another run on the same CRD that is not heard of any more")
	flags.StringVar(&c.progress, "progress", "auto", "Progress on standard error: auto, plain, json (an event a line) or none")
	AddTimeoutFlag(command, "How long the whole command may take")
	completeFlag(command, "progress", "auto", "plain", "json", "none")
}

// validate checks the flags against each other.
func (c *changeFlags) validate(command *cobra.Command) error {
	switch c.dryRun {
	case "none", "client", "server":
	case "unchanged":
		return UsageErrorf(command, `--dry-run needs a value: "none", "client" or "server"`)
	default:
		return UsageErrorf(command, `invalid --dry-run %q: use "none", "client" or "server"`, c.dryRun)
	}
	if err := checkNotEmpty(command); err != nil {
		return err
	}
	if err := checkOutput(command, c.output); err != nil {
		return err
	}
	if err := c.etcd.validate(command); err != nil {
		return err
	}
	switch c.progress {
	case "auto", "plain", "json", "none":
	default:
		return UsageErrorf(command, `invalid --progress %q: use "auto", "plain", "json" or "none"`, c.progress)
	}
	if _, err := labels.Parse(c.selection.Selector); err != nil {
		return UsageErrorf(command, "invalid --selector %q: %w", c.selection.Selector, err)
	}
	if err := c.validateSpeed(command); err != nil {
		return err
	}
	if c.webhookPatience < time.Second {
		return UsageErrorf(command, "--webhook-patience must be at least 1s")
	}
	if c.fieldManager == "" || len(c.fieldManager) > 128 {
		return UsageErrorf(command, "--field-manager must have 1 to 128 characters")
	}
	if err := c.validateOutcomes(command); err != nil {
		return err
	}
	if c.planOut != "" && c.dryRun == "none" && c.yes {
		return UsageErrorf(command, "--plan-out only saves the plan: it cannot be combined with --yes")
	}
	return nil
}

// checkNotEmpty refuses an empty value of a flag that makes a command do less, such as
// that of a variable which is not set: without the flag, everything is done.
func checkNotEmpty(command *cobra.Command) error {
	for _, name := range []string{"namespace", "selector", "group", "shard", "namespaces-first", "retry-from", "manifest", "report", "until", "refused-through", "plan-out", "verify"} {
		flag := command.Flags().Lookup(name)
		if flag != nil && flag.Changed && (flag.Value.String() == "" || flag.Value.String() == "[]") {
			return UsageErrorf(command, "--%s is empty: give it a value, or leave it out", name)
		}
	}
	return nil
}

func checkOutput(command *cobra.Command, output string) error {
	switch output {
	case "", "json", "yaml":
		return nil
	}
	return UsageErrorf(command, "invalid --output %q: use json or yaml", output)
}

// change is a changing command at work: from CRDs and an intent to plans, and
// from there to reports.
type change struct {
	*Factory
	flags   changeFlags
	cluster cluster.Interface
	// stored is the etcd that is asked what it holds; nil if none is.
	stored *etcdEvidence
	// accept is the file of --accept.
	accept string
	// retries are the objects of --retry-from, by CRD.
	retries map[string][]cluster.ObjectID
	// failures is the file of --report; nil for none.
	failures *failureFile
	// auditLogs are those of --audit-log.
	auditLogs []string
	// connection are the connection flags as they were typed.
	connection []string
}

// newChange connects to the cluster.
func (f *Factory) newChange(flags changeFlags, command *cobra.Command) (*change, error) {
	client, err := f.Cluster()
	if err != nil {
		return nil, err
	}
	c := &change{Factory: f, flags: flags, cluster: client, connection: slices.Concat(connectionWords(command), etcdWords(command))}
	if c.stored, err = flags.etcd.evidence(command.Context()); err != nil {
		return nil, err
	}
	context.AfterFunc(command.Context(), c.stored.close) // It ends with the command.
	if accept := command.Flags().Lookup("accept"); accept != nil {
		c.accept = accept.Value.String()
	}
	return c, nil
}

// resume returns the command that continues an intent for one CRD.
func (c *change) resume(intent v1alpha1.Intent, name string) string {
	words := []string{"kubectl", "crdver", string(intent.Verb)}
	if intent.Version != "" {
		words = append(words, intent.Version)
	}
	words = append(words, name)
	option := func(flag, value string) {
		if value != "" {
			words = append(words, flag, shellQuote(value))
		}
	}
	toggle := func(flag string, on bool) {
		if on {
			words = append(words, flag)
		}
	}
	option("--from", intent.From)
	option("-f", intent.DefinitionSource)
	option("--replacement", intent.Replacement)
	option("--message", intent.Message)
	option("-n", intent.Namespace)
	option("-l", intent.Selector)
	option("--shard", intent.Shard)
	option("--until", string(intent.Until))
	option("--engine", string(intent.Engine))
	toggle("--wait-for-svm", intent.WaitForSVM)
	toggle("--keep-svm", intent.KeepSVM)
	option("--namespaces-first", strings.Join(intent.NamespacesFirst, ","))
	option("--path", intent.Path)
	option("--refused-through", intent.RefusedThrough)
	toggle("--undo", intent.Undo)
	toggle("--serve=false", intent.Unserved)
	toggle("--deprecate-older", intent.DeprecateOlder)
	toggle("--allow-owner-references", intent.AllowOwnerReferences)
	for _, path := range intent.AllowLoss {
		option("--allow-loss", path)
	}
	option("--accept", c.accept)
	toggle("--rehearse-all", intent.RehearseAll)
	c.gateWords(intent, option, toggle)
	toggle("--force", intent.Force)
	option("--verify", string(intent.Verify))
	if intent.Retry != nil {
		option("--retry-from", intent.Retry.From)
	}
	return strings.Join(append(words, c.connection...), " ")
}

// connectionWords returns the connection flags that were typed: a command to
// paste must not end up on another cluster.
func connectionWords(command *cobra.Command) []string {
	var words []string
	for _, name := range []string{"kubeconfig", "context", "cluster", "user", "server"} {
		if flag := command.Flags().Lookup(name); flag != nil && flag.Changed {
			words = append(words, "--"+name, shellQuote(flag.Value.String()))
		}
	}
	return words
}

// shellQuote quotes a word for a POSIX shell where it has to be.
func shellQuote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// selected resolves the CRDs: those named, those selected, or the only one that
// fits. intent is only used for the commands that are offered where several fit.
func (c *change) selected(
	ctx context.Context, args []string, intent v1alpha1.Intent, fits func(crd.CRD) bool,
) ([]crd.CRD, error) {
	versions := map[string]bool{}
	crds, err := source.Select(ctx, c.cluster.CRDs(), args, c.flags.selection, func(one crd.CRD) bool {
		for _, v := range one.Spec.Versions {
			versions[v.Name] = true
		}
		return fits(one)
	}, func(name string) string { return c.resume(intent, name) })
	var none *source.NoneFitsError
	if errors.As(err, &none) && intent.Version != "" && !versions[intent.Version] {
		message := fmt.Sprintf("none of the %d CustomResourceDefinitions has a version %q", none.Looked, intent.Version)
		if near := lifecycle.Nearest(intent.Version, slices.Sorted(maps.Keys(versions))); near != "" {
			message += fmt.Sprintf("; did you mean %q?", near)
		}
		return nil, errors.New(message)
	}
	if err != nil {
		return nil, denied(err)
	}
	for _, one := range crds {
		switch {
		case one.DeletionTimestamp != nil:
			return nil, fmt.Errorf("the CRD %s is being deleted", one.Name)
		case !one.Established():
			return nil, fmt.Errorf("the CRD %s is not established: %s", one.Name, notEstablished(one))
		}
	}
	return crds, nil
}

// denied gives a read of CRDs that is not allowed the words and the exit code
// of a missing permission; other errors it leaves alone.
func denied(err error) error {
	var status apierrors.APIStatus
	if !apierrors.IsForbidden(err) || !errors.As(err, &status) {
		return err
	}
	rule := plan.Rule{Verb: "list", Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}
	if details := status.Status().Details; details != nil && details.Name != "" {
		rule.Verb, rule.Name = "get", details.Name
	}
	return Refused(fmt.Errorf("you lack a permission that is needed, %s: %w", rule, err))
}

// untilFlag adds --until for a verb.
func untilFlag(command *cobra.Command, verb v1alpha1.Verb, until *string) {
	steps := plan.UntilSteps(verb)
	command.Flags().StringVar(until, "until", "", "Stop after this step: "+strings.Join(steps, ", "))
	completeFlag(command, "until", steps...)
}

// notEstablished says why, in the server's words.
func notEstablished(c crd.CRD) string {
	for _, condition := range c.Status.Conditions {
		if condition.Status != "True" && condition.Message != "" {
			return fmt.Sprintf("%s is %s (%s)", condition.Type, condition.Status, condition.Message)
		}
	}
	return "the server has not accepted it yet; see kubectl describe crd " + c.Name
}

// planFor makes the plan for one CRD, with everything that is to be looked at
// for its steps. quick leaves the rehearsal and the access review out, for
// planning again after a conflict.
func (c *change) planFor(ctx context.Context, one crd.CRD, intent v1alpha1.Intent, quick bool) (v1alpha1.Plan, error) {
	identity, err := c.cluster.Identity(ctx)
	if err != nil {
		return v1alpha1.Plan{}, fmt.Errorf("identifying the cluster: %w", err)
	}
	observer := observe.New(c.cluster)
	observations := observer.Observe(ctx, one, observe.Options{
		Objects: true, Migrations: true, Unreadable: intent.Verb == v1alpha1.VerbRescue,
	})
	if observations.Stored = c.stored.of(ctx, one); observations.Stored != nil && observations.Stored.Error != "" {
		return v1alpha1.Plan{}, fmt.Errorf("%s says nothing about %s: %s", observations.Stored.Source, one.Name, observations.Stored.Error)
	}
	if !quick { // Planning again happens while this very run is at work.
		observations.Held = c.heldBy(one)
	}
	if !quick {
		observer.Namespaces(ctx, intent, &observations)
	}
	if err := c.gateObservations(ctx, one, intent, quick, &observations); err != nil {
		return v1alpha1.Plan{}, err
	}
	state := lifecycle.New(one, observations)
	first, err := plan.Build(state, identity, intent)
	if err != nil || quick {
		return first, c.inputError(err)
	}
	show, end := c.planning(one.Name)
	err = observer.ForPlan(ctx, one, first, &observations, observe.PlanOptions{
		Writes:      c.flags.dryRun != "client",
		Concurrency: c.flags.concurrency,
		Retry:       c.retries[one.Name],
		Progress:    show,
	})
	end()
	if ctx.Err() != nil { // Whatever came of it then.
		err = ctx.Err()
	}
	if err != nil {
		return v1alpha1.Plan{}, fmt.Errorf("planning %s of %s, nothing was changed: %w", intent.Verb, one.Name, err)
	}
	second, err := plan.Build(lifecycle.New(one, observations), identity, intent)
	return second, c.inputError(err)
}

func (c *change) inputError(err error) error {
	var input *plan.InputError
	if errors.As(err, &input) {
		return err
	}
	if err != nil {
		return fmt.Errorf("planning: %w", err)
	}
	return nil
}

// replan returns the function that plans again for a CRD after a conflict.
func (c *change) replan(name string, intent v1alpha1.Intent) func(context.Context) (v1alpha1.Plan, error) {
	return func(ctx context.Context) (v1alpha1.Plan, error) {
		found, err := c.cluster.CRDs().Get(ctx, name)
		if err != nil {
			return v1alpha1.Plan{}, fmt.Errorf("reading the CRD %s: %w", name, err)
		}
		return c.planFor(ctx, crd.CRD{CustomResourceDefinition: found}, intent, true)
	}
}

// now is the clock of the commands.
func now() time.Time { return time.Now() }

// dryRunNote is what ends the lines of a dry run, as in kubectl.
func (c *change) dryRunNote() string {
	switch c.flags.dryRun {
	case "client":
		return " (dry run)"
	case "server":
		return " (server dry run)"
	}
	return ""
}

package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/plan"
)

// maxJobShards bounds --shards: each shard lists all objects.
const maxJobShards = 100

// jobFlags make migrate print the manifest of a Job instead of migrating.
type jobFlags struct {
	manifest  string
	shards    int
	image     string
	namespace string
}

func (j *jobFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&j.manifest, "manifest", "", `Print the manifest of a "job" that does the migration in the cluster, with an account that has exactly the rights it needs, and change nothing`)
	flags.IntVar(&j.shards, "shards", 1, "With --manifest: divide the namespaces among this number of pods; a second Job then verifies and trims")
	flags.StringVar(&j.image, "image", "", "With --manifest: image whose entrypoint is kubectl-crdver")
	flags.StringVar(&j.namespace, "job-namespace", "default", "With --manifest: namespace of the Job and its ServiceAccount")
	completeFlag(command, "manifest", "job")
}

// jobOwnFlags are the flags that only mean something with --manifest.
func jobOwnFlags() []string { return []string{"shards", "image", "job-namespace"} }

// jobForwards are the flags of migrate that the pods get as they were given, in this
// order. Any other flag is refused: it would be taken for one that the Job obeys.
func jobForwards() []string {
	return []string{
		"progress", "force", "rehearse-all", "namespaces-first", "allow-loss", "engine", "concurrency", "max-concurrency", "qps", "max-bandwidth",
		"path", "refused-through", "webhook-patience", "timeout", "field-manager",
	}
}

// validate checks the flags against each other and the other flags of migrate.
func (j *jobFlags) validate(command *cobra.Command, args []string) error {
	if j.manifest == "" {
		for _, name := range jobOwnFlags() {
			if command.Flags().Changed(name) {
				return UsageErrorf(command, "--%s needs --manifest job", name)
			}
		}
		return nil
	}
	switch name := notForJobs(command); {
	case strings.HasPrefix(name, "etcd-"):
		return UsageErrorf(command, "--manifest cannot be combined with --%s: the pods have no way to etcd; kubectl crdver stored shows afterwards what it holds", name)
	case name != "":
		return UsageErrorf(command, "--manifest cannot be combined with --%s: a Job does not obey it", name)
	}
	switch engine := command.Flags().Lookup("engine").Value.String(); {
	case j.manifest != "job":
		return UsageErrorf(command, `invalid --manifest %q: use "job"`, j.manifest)
	case engine == string(v1alpha1.EngineInTree):
		return UsageErrorf(command, "--manifest cannot be combined with --engine in-tree, which needs no Job: the controller works in the cluster")
	case len(args) == 0:
		return UsageErrorf(command, "--manifest needs the name of a CRD: the rights of the account depend on it")
	case j.image == "":
		return UsageErrorf(command, "--manifest needs --image: an image whose entrypoint is kubectl-crdver, such as one built from scratch with the released binary")
	case strings.ContainsAny(j.image, " \t\r\n") || len(j.image) > maxImageName:
		return UsageErrorf(command, "invalid --image %q", j.image)
	case j.shards < 1 || j.shards > maxJobShards:
		return UsageErrorf(command, "--shards must be from 1 to %d", maxJobShards)
	case j.shards > 1 && command.Flags().Changed("namespaces-first"):
		return UsageErrorf(command, "--namespaces-first cannot be combined with --shards %d: %s", j.shards, plan.NotBeforeShards)
	case len(validation.IsDNS1123Label(j.namespace)) > 0:
		return UsageErrorf(command, "invalid --job-namespace %q: %s", j.namespace, validation.IsDNS1123Label(j.namespace)[0])
	}
	return nil
}

// notForJobs returns a flag that was given and that a Job cannot obey, or "". The
// flags of all commands lead to the cluster that is looked at now; the pods have their
// own account.
func notForJobs(command *cobra.Command) string {
	known := append(append(jobForwards(), jobOwnFlags()...), "manifest")
	command.InheritedFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "namespace" {
			known = append(known, flag.Name)
		}
	})
	refused := ""
	command.Flags().Visit(func(flag *pflag.Flag) {
		if refused == "" && !slices.Contains(known, flag.Name) {
			refused = flag.Name
		}
	})
	return refused
}

// maxImageName is longer than any reference that a registry takes.
const maxImageName = 1024

// printJobs prints the manifest of the Job that migrates the CRDs, as far as there is
// something to migrate.
func (c *change) printJobs(command *cobra.Command, crds []crd.CRD, intent v1alpha1.Intent, flags jobFlags) error {
	crds, err := c.worthJobs(command.Context(), crds, intent)
	if err != nil || len(crds) == 0 {
		return err
	}
	job := migrationJob{jobFlags: flags, args: jobArgs(command, crds)}
	for _, one := range crds {
		// A plan that has all the steps, whatever is left to do now: the rights must
		// do for a run that finds more.
		whole := intent
		whole.Force = true
		p, err := c.planFor(command.Context(), one, whole, true)
		if err != nil {
			return err
		}
		if p.Target.CRD.Name != one.Name || len(p.Steps) == 0 {
			return fmt.Errorf("%s cannot be migrated now: %s", one.Name, firstBlocker(p))
		}
		job.add(one, withTrim(p))
	}
	return c.printManifest(command.Context(), job)
}

// worthJobs leaves out the CRDs with nothing to migrate, and says so.
func (c *change) worthJobs(ctx context.Context, crds []crd.CRD, intent v1alpha1.Intent) ([]crd.CRD, error) {
	var worth []crd.CRD
	for _, one := range crds {
		p, err := c.planFor(ctx, one, intent, true)
		if err != nil {
			return nil, err
		}
		if len(p.Steps) > 0 || len(p.Blockers) > 0 {
			worth = append(worth, one)
			continue
		}
		c.tell("Nothing to migrate: the objects of %s are stored at %s; with --force there is a Job for it all the same.\n", one.Name, one.StorageVersion())
		if held := c.heldBy(one); held != "" {
			c.Warn(fmt.Sprintf("another run is at work on %s: %s", one.Name, held))
		}
	}
	return worth, nil
}

// withTrim adds the right to trim to a plan for which nothing is to be trimmed
// now: by the time the Job runs there may be.
func withTrim(p v1alpha1.Plan) []plan.Rule {
	rules := plan.JobRules(p)
	trim := v1alpha1.Plan{Target: p.Target, Steps: []v1alpha1.Step{{Action: v1alpha1.ActionTrim, Patch: plan.StoredPatch(nil)}}}
	for _, rule := range plan.Rules(trim) {
		rules = appendNew(rules, rule)
	}
	return rules
}

func appendNew(rules []plan.Rule, rule plan.Rule) []plan.Rule {
	for _, have := range rules {
		if have == rule {
			return rules
		}
	}
	return append(rules, rule)
}

func firstBlocker(p v1alpha1.Plan) string {
	if len(p.Blockers) == 0 {
		return "the plan has no steps"
	}
	return p.Blockers[0].Message
}

// jobArgs returns the command line of the pods.
func jobArgs(command *cobra.Command, crds []crd.CRD) []string {
	args := []string{string(v1alpha1.VerbMigrate)}
	for _, one := range crds {
		args = append(args, one.Name)
	}
	args = append(args, "--yes")
	if !command.Flags().Changed("progress") {
		args = append(args, "--progress", "plain")
	}
	for _, name := range jobForwards() {
		if flag := command.Flags().Lookup(name); flag != nil && flag.Changed {
			args = append(args, forwarded(flag)...)
		}
	}
	return args
}

// forwarded returns a flag as it was given, as arguments of a container.
func forwarded(flag *pflag.Flag) []string {
	value := flag.Value.String()
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		var args []string
		for _, one := range list.GetSlice() {
			args = append(args, "--"+flag.Name, dollars(one))
		}
		return args
	}
	switch flag.NoOptDefVal {
	case "":
		return []string{"--" + flag.Name, dollars(value)}
	case value:
		return []string{"--" + flag.Name}
	default:
		return []string{"--" + flag.Name + "=" + dollars(value)}
	}
}

// dollars escapes what the kubelet would take for a variable.
func dollars(text string) string { return strings.ReplaceAll(text, "$(", "$$(") }

// printManifest prints the documents, with what to do with them in comments, so
// that they are not lost when the output goes to a file.
func (c *change) printManifest(ctx context.Context, job migrationJob) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("printing the manifest: %w", err)
	}
	var text strings.Builder
	for _, line := range job.usage() {
		text.WriteString(strings.TrimRight("# "+line, " ") + "\n")
	}
	for i, object := range job.objects() {
		document, err := bareDocument(object)
		if err != nil {
			return err
		}
		if i > 0 {
			text.WriteString("---\n")
		}
		text.Write(document)
	}
	if _, err := c.Out.Write([]byte(text.String())); err != nil {
		return fmt.Errorf("printing the manifest: %w", err)
	}
	return nil
}

// bareDocument returns an object as YAML, without the status that types carry.
func bareDocument(object runtime.Object) ([]byte, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest: %w", err)
	}
	delete(fields, "status")
	stripNulls(fields)
	document, err := yaml.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest: %w", err)
	}
	return document, nil
}

// stripNulls removes the fields that are null or an empty object, such as the
// creationTimestamp and resources of types.
func stripNulls(fields map[string]any) {
	for name, value := range fields {
		switch value := value.(type) {
		case nil:
			delete(fields, name)
		case map[string]any:
			stripNulls(value)
		case []any:
			for _, item := range value {
				if inner, ok := item.(map[string]any); ok {
					stripNulls(inner)
				}
			}
		}
	}
}

package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/plan"
	"github.com/crdver/kubectl-crdver/pkg/source"
)

const migrateLong = `Rewrite every object of a CRD at its storage version, verify that each is
current, and trim status.storedVersions.

Objects are rewritten with a no-op patch that carries their resourceVersion:
nothing of them changes but the version they are persisted at, and an object
that somebody else writes or deletes meanwhile is left alone.

With --namespaces-first these are gone over first, and the rest only if no object
in them failed.

With --namespace or --selector only those objects are rewritten; with
--retry-from only those that an earlier run could not rewrite and wrote to its
--report. Then status.storedVersions is never trimmed: run the whole command
afterwards.`

const migrateExample = `  # Migrate the objects of one CRD
  kubectl crdver migrate crontabs.example.com

  # One namespace first, as a canary
  kubectl crdver migrate crontabs.example.com -n staging

  # Some namespaces first, the rest only if all went well there
  kubectl crdver migrate crontabs.example.com --namespaces-first staging,test

  # Keep a list of the objects that are refused, and send those again later
  kubectl crdver migrate crontabs.example.com --report failures.jsonl
  kubectl crdver migrate --retry-from failures.jsonl

  # All CRDs that have something to migrate, gently
  kubectl crdver migrate --all --concurrency 4 --qps 50`

type migrateOptions struct {
	flags     changeFlags
	selector  string
	force     bool
	until     string
	retryFrom string
	loss      lossFlags
	engine    engineFlags
	shard     string
	job       jobFlags
	rewrite   rewriteFlags
}

func newMigrateCommand(f *Factory) *cobra.Command {
	var o migrateOptions
	command := &cobra.Command{
		Use:               "migrate [CRD...]",
		Short:             "Rewrite every object at the storage version",
		Long:              migrateLong,
		Example:           migrateExample,
		ValidArgsFunction: completeCRDs(f),
		RunE:              func(command *cobra.Command, args []string) error { return o.run(f, command, args) },
	}
	flags := command.Flags()
	flags.StringVarP(&o.selector, "selector", "l", "", "Label selector for objects: only these are rewritten, and nothing is trimmed")
	flags.BoolVar(&o.force, "force", false, "Rewrite and verify although status.storedVersions says that nothing is left to do")
	flags.StringVar(&o.flags.selection.Group, "group", "", "API group: all CRDs of the group that have something to migrate")
	flags.BoolVar(&o.flags.selection.All, "all", false, "All CRDs that have something to migrate")
	command.MarkFlagsMutuallyExclusive("all", "group")
	flags.StringVar(&o.shard, "shard", "", "Rewrite only one of N parts of the objects, as I/N with I from 0, such as 0/3: whole namespaces; nothing is trimmed")
	o.loss.add(command)
	o.engine.add(command)
	o.job.add(command)
	o.rewrite.add(command)
	o.rewrite.addDetour(command)
	untilFlag(command, v1alpha1.VerbMigrate, &o.until)
	o.flags.add(command)
	o.flags.etcd.addEvidence(command)
	o.flags.addReport(command)
	o.flags.addVerify(command)
	o.addRetryFrom(command)
	return command
}

func (o *migrateOptions) run(f *Factory, command *cobra.Command, args []string) error {
	if err := o.flags.validate(command); err != nil {
		return err
	}
	if _, err := labels.Parse(o.selector); err != nil {
		return UsageErrorf(command, "invalid --selector %q: %w", o.selector, err)
	}
	if o.shard != "" {
		if _, err := plan.ParseShard(o.shard); err != nil {
			return UsageErrorf(command, "invalid --shard: %w", err)
		}
		if len(o.rewrite.namespacesFirst) > 0 {
			return UsageErrorf(command, "--namespaces-first cannot be combined with --shard: %s", plan.NotBeforeShards)
		}
	}
	if err := o.job.validate(command, args); err != nil {
		return err
	}
	namespace, explicit, err := f.Namespace()
	if err != nil {
		return err
	}
	if !explicit {
		// The namespace of a kubeconfig's context must not narrow a migration
		// behind anybody's back: it would never be complete.
		namespace = ""
	}
	c, err := f.newChange(o.flags, command)
	if err != nil {
		return err
	}
	if o.retryFrom != "" {
		if explicit {
			return UsageErrorf(command, "--namespace cannot be combined with --retry-from")
		}
		return o.retry(command.Context(), c, args)
	}
	intent := o.engine.into(v1alpha1.Intent{
		Verb: v1alpha1.VerbMigrate, Until: v1alpha1.Action(o.until), Force: o.force,
		Namespace: namespace, Selector: o.selector, Shard: o.shard, AllowLoss: o.loss.paths, Accepted: o.loss.accepted, RehearseAll: o.loss.all,
		EtcdEndpoints:  o.flags.etcd.members(),
		Verify:         o.flags.verifyMode(),
		RefusedThrough: o.rewrite.refusedThrough,
		Path:           string(o.rewrite.path), NamespacesFirst: o.rewrite.namespacesFirst,
	})
	var atWork []string
	crds, err := c.selected(command.Context(), args, intent, func(one crd.CRD) bool {
		if held := c.heldBy(one); held != "" {
			atWork = append(atWork, fmt.Sprintf("another run is at work on %s: %s", one.Name, held))
		}
		if namespace != "" && one.Spec.Scope == apiextensionsv1.ClusterScoped {
			return false // None of its objects is in a namespace.
		}
		state := lifecycle.New(one, lifecycle.Observations{Stored: c.stored.of(command.Context(), one)})
		return o.force || !state.StoredExactly(state.Storage) || !state.Trust.Trusted
	})
	var none *source.NoneFitsError
	if errors.As(err, &none) {
		f.tell("Nothing to migrate: the %d CustomResourceDefinitions store their objects at their storage version.\n", none.Looked)
		for _, text := range atWork {
			f.Warn(text)
		}
		if o.flags.output == "" {
			return nil
		}
		return c.printReports([]v1alpha1.Report{})
	}
	if err != nil {
		return err
	}
	if o.job.manifest != "" {
		return c.printJobs(command, crds, intent, o.job)
	}
	return c.run(command.Context(), crds, func(crd.CRD) v1alpha1.Intent { return intent })
}

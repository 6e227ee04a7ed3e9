package cmd

import (
	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

const promoteLong = `Make VERSION the version that objects are stored at, and rewrite every object.

Afterwards VERSION is served, it is the storage version, every object is
persisted at it, and status.storedVersions is exactly [VERSION].

The whole plan is shown first. The rewrite is rehearsed with a server dry run
of all objects (a sample beyond 1,000, unless the schemas differ so that fields
may be lost, or --rehearse-all is given): an object that the server would refuse, or a field that the new
schema would drop, blocks the plan. status.storedVersions is trimmed only after
a second pass has found every object current.`

const promoteExample = `  # Show what would be done
  kubectl crdver promote v1 crontabs.example.com --dry-run=server

  # Do it, asking first
  kubectl crdver promote v1 crontabs.example.com

  # In a runbook, without a terminal
  kubectl crdver promote v1 crontabs.example.com --yes --timeout 30m

  # Add v1 as a copy of v1beta1 first, and deprecate what is older
  kubectl crdver promote v1 crontabs.example.com --from v1beta1 --deprecate-older

  # Set the storage version today, migrate tomorrow
  kubectl crdver promote v1 crontabs.example.com --until set-storage
  kubectl crdver promote v1 crontabs.example.com`

type promoteOptions struct {
	flags      changeFlags
	definition definitionFlags
	until      string
	older      bool
	loss       lossFlags
	engine     engineFlags
	rewrite    rewriteFlags
}

func newPromoteCommand(f *Factory) *cobra.Command {
	var o promoteOptions
	verb := versionVerb{flags: &o.flags, definition: &o.definition, intent: func(version string) v1alpha1.Intent {
		return o.engine.into(v1alpha1.Intent{
			Verb: v1alpha1.VerbPromote, Version: version, Until: v1alpha1.Action(o.until), DeprecateOlder: o.older, AllowLoss: o.loss.paths, Accepted: o.loss.accepted, RehearseAll: o.loss.all,
			EtcdEndpoints:  o.flags.etcd.members(),
			Verify:         o.flags.verifyMode(),
			RefusedThrough: o.rewrite.refusedThrough,
			Path:           string(o.rewrite.path), NamespacesFirst: o.rewrite.namespacesFirst,
		})
	}}
	command := &cobra.Command{
		Use:               "promote VERSION [CRD...]",
		Short:             "Make a version the storage version and rewrite every object",
		Long:              promoteLong,
		Example:           promoteExample,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeVersionThenCRDs(f),
		RunE:              verb.runE(f),
	}
	o.definition.add(command)
	command.Flags().BoolVar(&o.older, "deprecate-older", false, "Deprecate the served versions of lower priority afterwards")
	o.loss.add(command)
	o.engine.add(command)
	o.rewrite.add(command)
	o.rewrite.addDetour(command)
	untilFlag(command, v1alpha1.VerbPromote, &o.until)
	o.flags.add(command)
	o.flags.etcd.addEvidence(command)
	o.flags.addReport(command)
	o.flags.addVerify(command)
	selectionFlags(command, &o.flags.selection)
	return command
}

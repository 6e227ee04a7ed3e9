package cmd

import (
	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/plan"
)

const retireLong = `Take VERSION out of service and out of the CRD.

VERSION is deprecated and unserved; every object is rewritten and verified,
also where status.storedVersions claims that nothing is stored at it, because
that list can be wrong; managedFields entries that name VERSION are moved to the
storage version, or server-side apply would break; and VERSION is removed.

Refused while VERSION is the storage version or the only served one. Trimming
status.storedVersions and removing the version cannot be undone: on a terminal
they ask for the word yes.`

const retireExample = `  # Show what would be done
  kubectl crdver retire v1beta1 crontabs.example.com --dry-run=server

  # Stop serving it today, remove it next month
  kubectl crdver retire v1beta1 crontabs.example.com --until unserve
  kubectl crdver retire v1beta1 crontabs.example.com

  # In a runbook, without a terminal
  kubectl crdver retire v1beta1 crontabs.example.com --yes`

type retireOptions struct {
	flags                changeFlags
	until                string
	replacement          string
	allowOwnerReferences bool
	loss                 lossFlags
	engine               engineFlags
	rewrite              rewriteFlags
}

func newRetireCommand(f *Factory) *cobra.Command {
	var o retireOptions
	verb := versionVerb{
		flags: &o.flags,
		intent: func(version string) v1alpha1.Intent {
			return o.engine.into(v1alpha1.Intent{
				Verb: v1alpha1.VerbRetire, Version: version, Until: v1alpha1.Action(o.until),
				Replacement: o.replacement, AllowOwnerReferences: o.allowOwnerReferences, AllowLoss: o.loss.paths, Accepted: o.loss.accepted,
				EtcdEndpoints: o.flags.etcd.members(),
				Verify:        o.flags.verifyMode(),
				Path:          string(o.rewrite.path), NamespacesFirst: o.rewrite.namespacesFirst,
			})
		},
		// A retired version still fits: running again says that nothing is left.
		fits: func(one crd.CRD, version string) bool { return plan.Retired(one.Annotations, version) },
	}
	command := &cobra.Command{
		Use:               "retire VERSION [CRD...]",
		Short:             "Take a version out of service and remove it",
		Long:              retireLong,
		Example:           retireExample,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeVersionThenCRDs(f),
		RunE:              verb.runE(f),
	}
	flags := command.Flags()
	flags.StringVar(&o.replacement, "replacement", "", "Version that the deprecation warning points to (default the highest-priority served version that is not deprecated)")
	flags.BoolVar(&o.allowOwnerReferences, "allow-owner-references", false, "Stop serving the version although ownerReferences name it: the garbage collector may delete those children")
	o.loss.add(command)
	o.engine.add(command)
	o.rewrite.add(command)
	untilFlag(command, v1alpha1.VerbRetire, &o.until)
	o.flags.add(command)
	o.flags.etcd.addEvidence(command)
	o.flags.addReport(command)
	o.flags.addVerify(command)
	o.flags.addSelection(command)
	return command
}

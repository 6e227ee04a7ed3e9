package cmd

import (
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/plan"
)

const retireLong = `Take VERSION out of service and out of the CRD.

VERSION is deprecated and unserved; every object is rewritten and verified,
also where status.storedVersions claims that nothing is stored at it, because
that list can be wrong; managedFields entries that name VERSION are moved to the
storage version, or server-side apply would break; and VERSION is removed.

Refused while VERSION is the storage version or the only served one, and before it
is unserved while there is evidence that it was used within --usage-window (who
wrote the objects, Argo CD, Flux, and --audit-log): kubectl crdver usage shows all.

With --soak the steps are spread over several runs: VERSION is deprecated, and the
time is noted in the annotation crdver.dev/soak of the CRD; a run after that time
unserves it; a run after the same time again removes it. A run in between changes
nothing, and exits with 0. Use that appears meanwhile starts the soak over. Later
runs need no --soak: what was noted is kept, and is never made shorter.

kubectl crdver restore is the way back until VERSION is removed. Trimming
status.storedVersions and removing the version cannot be undone: on a terminal
they ask for the word yes.`

const retireExample = `  # Show what would be done
  kubectl crdver retire v1beta1 crontabs.example.com --dry-run=server

  # Stop serving it today, remove it next month
  kubectl crdver retire v1beta1 crontabs.example.com --until unserve
  kubectl crdver retire v1beta1 crontabs.example.com

  # From a scheduled job: each step a week after the one before
  kubectl crdver retire v1beta1 crontabs.example.com --soak 168h --yes

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
	use                  useFlags
	soak                 time.Duration
}

func newRetireCommand(f *Factory) *cobra.Command {
	var o retireOptions
	verb := versionVerb{
		flags: &o.flags, check: o.validate, auditLogs: &o.use.auditLogs,
		intent: func(version string) v1alpha1.Intent {
			return o.use.into(o.engine.into(v1alpha1.Intent{
				Verb: v1alpha1.VerbRetire, Version: version, Until: v1alpha1.Action(o.until),
				Replacement: o.replacement, AllowOwnerReferences: o.allowOwnerReferences, AllowLoss: o.loss.paths, Accepted: o.loss.accepted, RehearseAll: o.loss.all,
				EtcdEndpoints: o.flags.etcd.members(),
				Verify:        o.flags.verifyMode(),
				Path:          string(o.rewrite.path), NamespacesFirst: o.rewrite.namespacesFirst,
				Soak: o.soakIntent(),
			}))
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
	flags.DurationVar(&o.soak, "soak", 0, "Wait this long, over several runs, between deprecating and unserving, and between unserving and removing")
	o.use.add(command)
	o.loss.add(command)
	o.engine.add(command)
	o.rewrite.add(command)
	untilFlag(command, v1alpha1.VerbRetire, &o.until)
	o.flags.add(command)
	o.flags.etcd.addEvidence(command)
	o.flags.addReport(command)
	o.flags.addVerify(command)
	selectionFlags(command, &o.flags.selection)
	return command
}

// soakIntent returns the time of --soak, nil without.
func (o *retireOptions) soakIntent() *metav1.Duration {
	if o.soak == 0 {
		return nil
	}
	return &metav1.Duration{Duration: o.soak}
}

func (o *retireOptions) validate(command *cobra.Command) error {
	if command.Flags().Changed("soak") && (o.soak < time.Second || o.soak > lifecycle.LongestSoak) {
		return UsageErrorf(command, "--soak %s: it must be from 1s to ten years", o.soak)
	}
	return o.use.validate(command)
}

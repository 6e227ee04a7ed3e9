package cmd

import (
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

const brownoutLong = `Stop serving VERSION for a while, see who fails, and serve it again.

It is a rehearsal of unserving with the way back built in. VERSION is served again
when the time is up, on Ctrl-C, on SIGTERM and after an error; while that does not
work it is tried again and again, and the command to do it by hand is printed.
Should the process die, the annotation crdver.dev/brownout of the CRD says until
when VERSION was to be unserved: status shows that it is overdue, and restore, or
another brownout or retire, serves it again. That is then all that these do, with the
exit code 4: how clients fare is to be seen first, and running again does the rest.
It ends early, with the exit code 3, if the CRD is deleted or somebody else serves
VERSION again.

Refused like the unserving itself: while VERSION is the storage version or the only
served one, while ownerReferences name it (the garbage collector may delete those
children), and while there is evidence of use within --usage-window, unless
--allow-in-use says that this is what is to be found out.

The report says what was watched and what was not: requests that failed, by client
(--audit-log); Deployments, StatefulSets and DaemonSets that became unready, Pods
whose containers were restarted, warning Events that name the API group, and objects
whose ownerReferences name VERSION that came or went. All but the first only happened
at the same time, which proves no cause.

The exit code is 2 where a client failed or a workload was affected.`

const brownoutExample = `  # Five minutes without v1beta1, whoever uses it
  kubectl crdver brownout v1beta1 crontabs.example.com --for 5m --allow-in-use

  # Three times, once an hour, with the clients that failed from the audit log
  kubectl crdver brownout v1beta1 crontabs.example.com --for 5m --repeat 3 --every 1h \
    --allow-in-use --audit-log /var/log/kubernetes/audit/

  # The way back, should the process have been killed
  kubectl crdver restore v1beta1 crontabs.example.com`

// longestBrownout bounds --for: what lasts longer is a retirement.
const longestBrownout = 24 * time.Hour

// mostBrownouts bounds --repeat.
const mostBrownouts = 1000

type brownoutOptions struct {
	flags                changeFlags
	use                  useFlags
	length               time.Duration
	repeat               int
	every                time.Duration
	allowOwnerReferences bool
}

func newBrownoutCommand(f *Factory) *cobra.Command {
	var o brownoutOptions
	verb := versionVerb{
		flags: &o.flags, check: o.validate, auditLogs: &o.use.auditLogs,
		intent: func(version string) v1alpha1.Intent {
			brownout := &v1alpha1.BrownoutIntent{For: metav1.Duration{Duration: o.length}, Repeat: o.repeat}
			if o.every > 0 {
				brownout.Every = &metav1.Duration{Duration: o.every}
			}
			return o.use.into(v1alpha1.Intent{
				Verb: v1alpha1.VerbBrownout, Version: version, Brownout: brownout, AllowOwnerReferences: o.allowOwnerReferences,
			})
		},
	}
	command := &cobra.Command{
		Use:               "brownout VERSION [CRD]",
		Short:             "Stop serving a version for a while, and see who fails",
		Long:              brownoutLong,
		Example:           brownoutExample,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeVersionThenCRDs(f),
		RunE:              verb.runE(f),
	}
	flags := command.Flags()
	flags.DurationVar(&o.length, "for", 5*time.Minute, "How long not to serve the version")
	flags.IntVar(&o.repeat, "repeat", 1, "How many times")
	flags.DurationVar(&o.every, "every", 0, "Time from the start of one brownout to the start of the next")
	flags.BoolVar(&o.allowOwnerReferences, "allow-owner-references", false, "Stop serving the version although ownerReferences name it: the garbage collector may delete those children")
	o.use.add(command)
	o.flags.add(command)
	return command
}

func (o *brownoutOptions) validate(command *cobra.Command) error {
	switch {
	case o.length < time.Second || o.length > longestBrownout:
		return UsageErrorf(command, "--for must be from 1s to %s", longestBrownout)
	case o.repeat < 1 || o.repeat > mostBrownouts:
		return UsageErrorf(command, "--repeat must be from 1 to %d", mostBrownouts)
	case o.repeat > 1 && o.every <= o.length:
		return UsageErrorf(command, "--repeat needs --every, and that must be longer than --for %s", o.length)
	case o.repeat == 1 && o.every != 0:
		return UsageErrorf(command, "--every makes no sense without --repeat")
	}
	return o.use.validate(command)
}

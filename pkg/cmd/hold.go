package cmd

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"strings"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/executor"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// holdOptions says as whom a plan is carried out.
func (c *change) holdOptions(intent v1alpha1.Intent) *executor.HoldOptions {
	process := thisProcess()
	return &executor.HoldOptions{
		Hold: v1alpha1.Hold{
			ID:      string(uuid.NewUUID()),
			Holder:  holderName(),
			Process: process,
			Command: strings.TrimSpace(string(intent.Verb) + " " + intent.Version),
		},
		Gone:     gone,
		TakeOver: c.flags.takeOver,
	}
}

// holderName returns "alice@host, process 4242".
func holderName() string {
	name := ""
	if current, err := user.Current(); err == nil {
		name = current.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s@%s, process %d", cmp.Or(name, "unknown"), host, os.Getpid())
}

// thisProcess names this process for others on the same machine.
func thisProcess() *v1alpha1.HoldProcess {
	machine := machineID()
	if machine == "" {
		return nil
	}
	pid := os.Getpid()
	return &v1alpha1.HoldProcess{Machine: machine, PID: pid, Start: processStart(pid)}
}

// gone reports whether the holder's process is known not to be there any more:
// it was on this machine, and its number is free or somebody else's by now.
func gone(hold v1alpha1.Hold) bool {
	p := hold.Process
	return p != nil && p.Machine != "" && p.Machine == machineID() && p.Start != processStart(p.PID)
}

// heldBy says who rewrites the objects of a CRD at this moment, as far as that
// stands in the way of this command.
func (c *change) heldBy(one crd.CRD) string {
	hold, err := lifecycle.ReadHold(one.Annotations)
	switch {
	case err != nil:
		return fmt.Sprintf("%s; if no run is at work: kubectl annotate crd %s %s-", err, one.Name, lifecycle.HoldAnnotation)
	case hold == nil || hold.ID == "" || c.flags.takeOver || gone(*hold):
		return ""
	}
	return lifecycle.DescribeHold(*hold)
}

package cmd

import (
	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// versionVerb is a changing command with the arguments VERSION [CRD...]. Its
// parts point to the flags, which are read when the command runs.
type versionVerb struct {
	flags *changeFlags
	// definition says where the definition of a missing VERSION comes from; nil
	// for a command that adds none.
	definition *definitionFlags
	// intent is what the command wants of each CRD.
	intent func(version string) v1alpha1.Intent
	// fits tells the CRDs that the command is about when none is named, beside
	// those that have VERSION; nil for no others.
	fits func(c crd.CRD, version string) bool
	// check checks flags of the command; nil for none.
	check func(*cobra.Command) error
	// auditLogs are those of --audit-log; nil for a command without.
	auditLogs *[]string
}

// runE returns the function that cobra runs.
func (v versionVerb) runE(f *Factory) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error { return v.run(f, command, args[0], args[1:]) }
}

func (v versionVerb) run(f *Factory, command *cobra.Command, version string, names []string) error {
	if err := v.flags.validate(command); err != nil {
		return err
	}
	if v.check != nil {
		if err := v.check(command); err != nil {
			return err
		}
	}
	c, err := f.newChange(*v.flags, command)
	if err != nil {
		return err
	}
	if v.auditLogs != nil {
		c.auditLogs = *v.auditLogs
	}
	ctx := command.Context()
	given := &definition{}
	if v.definition != nil {
		if given, err = v.definition.load(ctx, f, version); err != nil {
			return err
		}
	}
	intent := v.intent(version)
	crds, err := c.selected(ctx, names, given.offer(intent), func(one crd.CRD) bool {
		return given.fits(one, version) || v.fits != nil && v.fits(one, version)
	})
	if err != nil {
		return err
	}
	return c.run(ctx, crds, func(one crd.CRD) v1alpha1.Intent { return given.fill(intent, one) })
}

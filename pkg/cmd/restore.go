package cmd

import (
	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
)

const restoreLong = `Serve VERSION again, or bring a removed VERSION back.

A version that is in spec.versions is served again. One that was removed is
added again, unserved, from its manifest (-f) or as a copy of another version
(--from): objects that are still stored at it become readable again. That is
the rescue when LIST or GET says "invalid group/version".`

const restoreExample = `  # Bring the clients of an unserved version back
  kubectl crdver restore v1beta1 crontabs.example.com

  # Make objects readable that are stored at a version which was removed
  kubectl crdver restore v1beta1 crontabs.example.com -f old-crd.yaml`

type restoreOptions struct {
	flags      changeFlags
	definition definitionFlags
}

func newRestoreCommand(f *Factory) *cobra.Command {
	var o restoreOptions
	command := &cobra.Command{
		Use:               "restore VERSION [CRD...]",
		Short:             "Serve a version again, or bring a removed one back",
		Long:              restoreLong,
		Example:           restoreExample,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeVersionThenCRDs(f),
		RunE:              func(command *cobra.Command, args []string) error { return o.run(f, command, args) },
	}
	o.definition.add(command)
	o.flags.add(command)
	o.flags.addSelection(command)
	return command
}

func (o *restoreOptions) run(f *Factory, command *cobra.Command, args []string) error {
	if err := o.flags.validate(command); err != nil {
		return err
	}
	version := args[0]
	c, err := f.newChange(o.flags, command)
	if err != nil {
		return err
	}
	definition, err := o.definition.load(command.Context(), f, version)
	if err != nil {
		return err
	}
	intent := v1alpha1.Intent{Verb: v1alpha1.VerbRestore, Version: version}
	crds, err := c.selected(command.Context(), args[1:], definition.offer(intent), definition.fits(version))
	if err != nil {
		return err
	}
	return c.run(command.Context(), crds, func(one crd.CRD) v1alpha1.Intent { return definition.fill(intent, one) })
}

package cmd

import (
	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

const restoreLong = `Serve VERSION again, or bring a removed VERSION back.

A version that is in spec.versions is served again; a soak or a brownout of it ends
with that. One that was removed is
added again, unserved, from its manifest (-f) or as a copy of another version
(--from): objects that are still stored at it become readable again. Of these,
fields that the schema lacks which it gets are invisible, and the next write of
an object drops them: where LIST or GET says "invalid group/version", "kubectl
crdver rescue" keeps every field. A version that a rescue added is kept.`

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
	verb := versionVerb{flags: &o.flags, definition: &o.definition, intent: func(version string) v1alpha1.Intent {
		return v1alpha1.Intent{Verb: v1alpha1.VerbRestore, Version: version}
	}}
	command := &cobra.Command{
		Use:               "restore VERSION [CRD...]",
		Short:             "Serve a version again, or bring a removed one back",
		Long:              restoreLong,
		Example:           restoreExample,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeVersionThenCRDs(f),
		RunE:              verb.runE(f),
	}
	o.definition.add(command)
	o.flags.add(command)
	selectionFlags(command, &o.flags.selection)
	return command
}

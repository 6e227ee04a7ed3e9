package cmd

import (
	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// lossFlags say what may be lost when objects are rewritten.
type lossFlags struct {
	paths    []string
	accept   string
	accepted []v1alpha1.AcceptedDifference
	all      bool
}

func (l *lossFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringArrayVar(&l.paths, "allow-loss", nil,
		"Path of a field that may be lost or changed when objects are rewritten, with all below it, as in spec.hostPort; can be repeated")
	flags.StringVar(&l.accept, "accept", "", "File with the differences that are expected, as 'kubectl crdver roundtrip --write-accept' writes it")
	flags.BoolVar(&l.all, "rehearse-all", false, "Rehearse the rewrite of every object, and try what a conversion webhook loses on each of them, rather than on a sample")
	_ = command.MarkFlagFilename("accept", "yaml", "yml", "json") // The only error is about a flag that does not exist.
	run := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		var err error
		if l.accepted, err = readAccepted(l.accept); err != nil {
			return UsageError(command, err)
		}
		return run(command, args)
	}
}

package cmd

import (
	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/source"
)

// selectionFlags adds the flags that select several CRDs.
func selectionFlags(command *cobra.Command, selection *source.Selection) {
	flags := command.Flags()
	flags.StringVarP(&selection.Selector, "selector", "l", "", "Label selector for CRDs")
	flags.StringVar(&selection.Group, "group", "", "API group: all CRDs of the group that fit")
	flags.BoolVar(&selection.All, "all", false, "All CRDs that fit")
	command.MarkFlagsMutuallyExclusive("all", "group")
	command.MarkFlagsMutuallyExclusive("all", "selector")
}

package cmd

import (
	"github.com/spf13/cobra"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

const deprecateLong = `Deprecate VERSION: the server then sends a Warning with each answer at that
version, and counts the requests (apiserver_requested_deprecated_apis).

The warning names the deprecated and the replacing version and kind. Afterwards
one request is made at that version, to show what clients now get.`

const deprecateExample = `  # Deprecate v1beta1 in favour of the best served version
  kubectl crdver deprecate v1beta1 crontabs.example.com

  # Point to a version of your choice
  kubectl crdver deprecate v1beta1 crontabs.example.com --replacement v2

  # With words of your own
  kubectl crdver deprecate v1beta1 crontabs.example.com \
    --message "example.com/v1beta1 CronTab is deprecated and goes in March; use example.com/v1 CronTab"

  # Take it back
  kubectl crdver deprecate v1beta1 crontabs.example.com --undo`

type deprecateOptions struct {
	flags       changeFlags
	replacement string
	message     string
	undo        bool
}

func newDeprecateCommand(f *Factory) *cobra.Command {
	var o deprecateOptions
	verb := versionVerb{flags: &o.flags, intent: func(version string) v1alpha1.Intent {
		return v1alpha1.Intent{
			Verb: v1alpha1.VerbDeprecate, Version: version,
			Replacement: o.replacement, Message: o.message, Undo: o.undo,
		}
	}}
	command := &cobra.Command{
		Use:               "deprecate VERSION [CRD...]",
		Short:             "Deprecate a version, or take that back",
		Long:              deprecateLong,
		Example:           deprecateExample,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeVersionThenCRDs(f),
		RunE:              verb.runE(f),
	}
	flags := command.Flags()
	flags.StringVar(&o.replacement, "replacement", "", "Version that the warning points to (default the highest-priority served version that is not deprecated)")
	flags.StringVar(&o.message, "message", "", "The warning, at most 256 bytes; it must name the deprecated or the replacing group/version and the kind")
	flags.BoolVar(&o.undo, "undo", false, "Take the deprecation back")
	command.MarkFlagsMutuallyExclusive("undo", "message")
	command.MarkFlagsMutuallyExclusive("undo", "replacement")
	o.flags.add(command)
	selectionFlags(command, &o.flags.selection)
	return command
}

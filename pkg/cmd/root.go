// Package cmd holds the commands of "kubectl crdver": flags become options,
// options become calls of the packages that do the work.
package cmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
)

const rootLong = `Take a CustomResourceDefinition (CRD) through the life of its versions, on a
live cluster, without losing data and without breaking a client by surprise.

A command that changes something shows its whole plan first, checks that it is
safe, asks, does it, and checks that it was done. Running it again continues
where it stopped.`

const rootExample = `  # Show the versions of all CRDs, highest priority first
  kubectl crdver sort

  # Show where the versions of one CRD stand, and what to do next
  kubectl crdver status crontabs.example.com

  # Say what is wrong with the versions of CRDs, and what an upgrade would break
  kubectl crdver validate -f crds/
  helm template ./chart | kubectl crdver preflight -f -

  # Make v1 the storage version and rewrite every object
  kubectl crdver promote v1 crontabs.example.com

  # Take v1beta1 out of service and remove it
  kubectl crdver retire v1beta1 crontabs.example.com`

// The groups that the commands are listed in.
const (
	groupInspect = "inspect"
	groupChange  = "change"
	groupOther   = "other"
)

// Option changes how the root command is made.
type Option func(*options)

type options struct {
	version   string
	status    <-chan os.Signal
	clock     func() time.Time
	keepGoing func() (end func())
}

// WithVersion sets the version of the plugin; without it, or when it is empty,
// the version is that of the Go module.
func WithVersion(version string) Option {
	return func(o *options) { o.version = version }
}

// WithStatusRequests has a command that changes something say where it is
// whenever a signal comes.
func WithStatusRequests(signals <-chan os.Signal) Option {
	return func(o *options) { o.status = signals }
}

// WithKeepGoing has a function called before something is changed: until end is called,
// it must not end the process that nobody reads its output.
func WithKeepGoing(keepGoing func() (end func())) Option {
	return func(o *options) { o.keepGoing = keepGoing }
}

// WithClock makes soaks and brownouts, and what counts as recent use, go by another
// clock than that of the API server.
func WithClock(clock func() time.Time) Option {
	return func(o *options) { o.clock = clock }
}

// commands returns every verb with its group. A verb that is not here does
// not exist.
func (f *Factory) commands() []groupedCommand {
	return []groupedCommand{
		{groupInspect, newSortCommand(f)},
		{groupInspect, newStatusCommand(f)},
		{groupInspect, newValidateCommand(f)},
		{groupInspect, newPreflightCommand(f)},
		{groupInspect, newRoundtripCommand(f)},
		{groupInspect, newConvertCommand(f)},
		{groupInspect, newWebhookCheckCommand(f)},
		{groupInspect, newStoredCommand(f)},
		{groupInspect, newUsageCommand(f)},
		{groupInspect, newCanRemoveCommand(f)},
		{groupInspect, newExplainCommand(f)},
		{groupChange, newDeprecateCommand(f)},
		{groupChange, newPromoteCommand(f)},
		{groupChange, newMigrateCommand(f)},
		{groupChange, newRetireCommand(f)},
		{groupChange, newBrownoutCommand(f)},
		{groupChange, newRestoreCommand(f)},
		{groupChange, newRescueCommand(f)},
		{groupChange, newApplyCommand(f)},
		{groupOther, newVersionCommand(f)},
	}
}

type groupedCommand struct {
	group   string
	command *cobra.Command
}

// NewRootCommand returns "kubectl crdver" with all of its verbs. Run it with
// ExecuteContext and give the result to ExitCode and PrintError.
func NewRootCommand(streams genericiooptions.IOStreams, opts ...Option) *cobra.Command {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	f := NewFactory(streams, o.version)
	f.status = o.status
	f.clock = o.clock
	if o.keepGoing != nil {
		f.keepGoing = o.keepGoing
	}
	root := &cobra.Command{
		Use:         "crdver",
		Short:       "Take a CRD through the life of its versions",
		Long:        rootLong,
		Example:     rootExample,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl crdver"},
		Args:        unknownCommand,
		RunE: func(command *cobra.Command, _ []string) error {
			writeHelp(command.OutOrStdout(), command)
			return nil
		},
		SilenceErrors: true,
		SilenceUsage:  true,
		// The scripts that cobra makes complete "crdver", a command that does
		// not exist; kubectl runs kubectl_complete-crdver instead.
		CompletionOptions:          cobra.CompletionOptions{DisableDefaultCmd: true},
		SuggestionsMinimumDistance: 2,
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetFlagErrorFunc(flagError)
	root.SetUsageFunc(func(command *cobra.Command) error { return writeUsage(command.OutOrStderr(), command) })
	root.SetHelpFunc(func(command *cobra.Command, _ []string) { writeHelp(command.OutOrStdout(), command) })
	root.AddGroup(
		&cobra.Group{ID: groupInspect, Title: "Inspect:"},
		&cobra.Group{ID: groupChange, Title: "Change:"},
		&cobra.Group{ID: groupOther, Title: "Other:"},
	)
	addGlobalFlags(root, f)

	help := newHelpCommand()
	root.SetHelpCommand(help)
	for _, verb := range append(f.commands(), groupedCommand{groupOther, help}) {
		verb.command.GroupID = verb.group
		root.AddCommand(verb.command)
		instrument(verb.command)
		completeRest(f, verb.command, verb.command.LocalNonPersistentFlags())
	}
	completeRest(f, root, root.PersistentFlags())
	instrument(root)
	return root
}

// addGlobalFlags adds the connection flags and -v to every command.
func addGlobalFlags(root *cobra.Command, f *Factory) {
	flags := root.PersistentFlags()
	f.ConfigFlags.AddFlags(flags)
	flags.Lookup("namespace").Usage = "Namespace of the objects that a command works on; a CRD itself has no namespace, so this never selects one"
	// Help is the same on every machine.
	flags.Lookup("cache-dir").DefValue = "$HOME/.kube/cache"
	completeConnectionFlags(root, f)

	logs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(logs)
	flags.AddGoFlag(logs.Lookup("v"))
	flags.Lookup("v").Usage = "Number for the log level verbosity; 6 and more shows the requests to the server"
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if logs.Lookup("v").Value.String() != "0" {
			return nil
		}
		// Logs are for those who ask for them: libraries log errors that the
		// commands report, or deal with, themselves.
		klog.SetOutput(io.Discard)
		if err := errors.Join(logs.Set("logtostderr", "false"), logs.Set("stderrthreshold", "FATAL")); err != nil {
			return fmt.Errorf("turning logs off: %w", err)
		}
		return nil
	}
}

// instrument gives a command what all have in common: usage errors that name
// the help, the exit codes of an interrupt, and --timeout.
func instrument(command *cobra.Command) {
	checkArgs := command.Args
	command.Args = func(command *cobra.Command, args []string) error {
		if checkArgs != nil {
			if err := checkArgs(command, args); err != nil {
				return UsageError(command, argumentsError(command, args, err))
			}
		}
		if limit, err := command.Flags().GetDuration("timeout"); err == nil && limit < 0 {
			return UsageErrorf(command, "--timeout %s: it must not be negative; 0 means no limit", limit)
		}
		if err := command.ValidateRequiredFlags(); err != nil {
			return UsageError(command, err)
		}
		return UsageError(command, command.ValidateFlagGroups())
	}
	run := command.RunE
	if run == nil {
		return
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		parent := command.Context()
		ctx, cancel := withTimeoutFlag(parent, command)
		defer cancel()
		command.SetContext(ctx)
		return outcome(parent, ctx, run(command, args))
	}
}

// argumentsError puts cobra's complaints about arguments into a user's words.
func argumentsError(command *cobra.Command, args []string, err error) error {
	switch text := err.Error(); {
	case strings.HasPrefix(text, "requires "), strings.HasPrefix(text, "accepts "):
		return fmt.Errorf("wrong number of arguments (%d): %s", len(args), command.UseLine())
	case command.HasParent() && strings.HasPrefix(text, "unknown command "):
		return fmt.Errorf("unexpected argument %q: %s", args[0], command.UseLine())
	default:
		return err
	}
}

// withTimeoutFlag limits ctx to the command's --timeout; 0 means no limit.
func withTimeoutFlag(ctx context.Context, command *cobra.Command) (context.Context, context.CancelFunc) {
	limit, err := command.Flags().GetDuration("timeout")
	if err != nil || limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// AddTimeoutFlag adds --timeout to a command. The root command enforces it:
// the context of the command ends when the time is over, and the exit code
// is then ExitTimeout.
func AddTimeoutFlag(command *cobra.Command, usage string) {
	command.Flags().Duration("timeout", time.Duration(0), usage+"; 0 means no limit")
}

// unknownCommand refuses words that are no verb and says which one was meant.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	message := fmt.Sprintf("unknown command %q", args[0])
	if near := root.SuggestionsFor(args[0]); len(near) > 0 {
		message += fmt.Sprintf(`; did you mean "%s"?`, strings.Join(near, `" or "`))
	}
	return errors.New(message)
}

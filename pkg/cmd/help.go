package cmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the width that the text of flags is wrapped at.
const helpWidth = 100

// newHelpCommand is cobra's help command, but an unknown topic is an error.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		Long:  "Show the help of a command.",
		ValidArgsFunction: func(command *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var names []cobra.Completion
			for _, verb := range command.Root().Commands() {
				if len(args) == 0 && verb.IsAvailableCommand() && strings.HasPrefix(verb.Name(), toComplete) {
					names = append(names, cobra.CompletionWithDesc(verb.Name(), verb.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			topic, rest, err := command.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return UsageError(command.Root(), unknownCommand(command.Root(), args))
			}
			topic.InitDefaultHelpFlag()
			writeHelp(command.OutOrStdout(), topic)
			return nil
		},
	}
}

// writeHelp writes the help of a command: what it is, how it is called and
// the exit codes.
func writeHelp(w io.Writer, command *cobra.Command) {
	about := command.Long
	if about == "" {
		about = command.Short
	}
	// A failure to write the help to stdout cannot be told in a better place.
	_, _ = fmt.Fprintf(w, "%s\n\n", strings.TrimRight(about, " \n"))
	_ = writeUsage(w, command)
}

// writeUsage writes how a command is called. Cobra's own template does not
// leave a place for the exit codes.
func writeUsage(w io.Writer, command *cobra.Command) error {
	var out strings.Builder
	out.WriteString("Usage:\n")
	if command.HasAvailableSubCommands() {
		fmt.Fprintf(&out, "  %s COMMAND [flags]\n", command.CommandPath())
	} else {
		fmt.Fprintf(&out, "  %s\n", command.UseLine())
	}
	if len(command.Aliases) > 0 {
		fmt.Fprintf(&out, "\nAliases:\n  %s\n", command.NameAndAliases())
	}
	if command.HasExample() {
		fmt.Fprintf(&out, "\nExamples:\n%s\n", strings.Trim(command.Example, "\n"))
	}
	for _, group := range command.Groups() {
		writeGroup(&out, command, group)
	}
	writeFlags(&out, "Flags", command.LocalNonPersistentFlags())
	fmt.Fprintf(&out, "\n%s", exitCodesHelp)
	if command.HasParent() {
		writeFlags(&out, "Global flags", command.InheritedFlags())
	} else {
		writeFlags(&out, "Global flags", command.PersistentFlags())
		fmt.Fprintf(&out, "\nUse \"%s COMMAND --help\" for more about a command.\n", command.CommandPath())
	}
	_, err := io.WriteString(w, out.String())
	if err != nil {
		return fmt.Errorf("writing the help: %w", err)
	}
	return nil
}

// writeGroup lists the verbs of one group; a group without verbs is left out.
func writeGroup(out *strings.Builder, command *cobra.Command, group *cobra.Group) {
	title := "\n" + group.Title + "\n"
	for _, verb := range command.Commands() {
		if verb.GroupID != group.ID || !verb.IsAvailableCommand() {
			continue
		}
		fmt.Fprintf(out, "%s  %-*s %s\n", title, verb.NamePadding(), verb.Name(), verb.Short)
		title = ""
	}
}

func writeFlags(out *strings.Builder, title string, flags *pflag.FlagSet) {
	if flags.HasAvailableFlags() {
		fmt.Fprintf(out, "\n%s:\n%s", title, flags.FlagUsagesWrapped(helpWidth))
	}
}

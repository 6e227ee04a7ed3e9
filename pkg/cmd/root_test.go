package cmd

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// result is what one run of the plugin left behind.
type result struct {
	code           int
	stdout, stderr string
}

// execute runs the plugin as main does.
func execute(t *testing.T, ctx context.Context, root *cobra.Command, out, errOut *bytes.Buffer, args ...string) result {
	t.Helper()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	PrintError(errOut, err)
	return result{code: ExitCode(err), stdout: out.String(), stderr: errOut.String()}
}

func runPlugin(t *testing.T, args ...string) result {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	return execute(t, t.Context(), NewRootCommand(streams, WithVersion("v1.2.3")), out, errOut, args...)
}

func TestRootHelp(t *testing.T) {
	bare := runPlugin(t)
	if bare.code != 0 || bare.stderr != "" {
		t.Errorf("exit code %d, stderr %q", bare.code, bare.stderr)
	}
	for _, args := range [][]string{{"--help"}, {"help"}} {
		if got := runPlugin(t, args...); got != bare {
			t.Errorf("%v differs from no arguments: %+v", args, got)
		}
	}
	for _, want := range []string{"kubectl crdver COMMAND", "Other:", "Exit codes:", "130  interrupted", "--kubeconfig"} {
		if !strings.Contains(bare.stdout, want) {
			t.Errorf("help lacks %q:\n%s", want, bare.stdout)
		}
	}
	if strings.Contains(bare.stdout, "completion") {
		t.Error("help offers a completion command, whose scripts complete another name")
	}
}

func TestEveryCommandHelp(t *testing.T) {
	root := NewRootCommand(genericiooptions.NewTestIOStreamsDiscard())
	for _, command := range root.Commands() {
		t.Run(command.Name(), func(t *testing.T) {
			got := runPlugin(t, command.Name(), "--help")
			for _, want := range []string{"kubectl crdver " + command.Use, exitCodesHelp, "--context"} {
				if !strings.Contains(got.stdout, want) {
					t.Errorf("help lacks %q", want)
				}
			}
			if got.code != 0 || got.stderr != "" {
				t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
			}
			if named := runPlugin(t, "help", command.Name()); named != got {
				t.Error(`"help NAME" differs from "NAME --help"`)
			}
			if strings.HasSuffix(command.Short, ".") || command.Short == "" || strings.ToUpper(command.Short[:1]) != command.Short[:1] {
				t.Errorf("short help %q", command.Short)
			}
			if command.Name() != "help" && command.Example == "" {
				t.Error("no example")
			}
			if !root.ContainsGroup(command.GroupID) {
				t.Errorf("group %q does not exist", command.GroupID)
			}
			command.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
				if flag.Name != "help" && (strings.HasSuffix(flag.Usage, ".") || strings.ToUpper(flag.Usage[:1]) != flag.Usage[:1]) {
					t.Errorf("usage of --%s is %q", flag.Name, flag.Usage)
				}
			})
		})
	}
}

// TestConnectionFlags compares with all flags that cli-runtime knows.
func TestConnectionFlags(t *testing.T) {
	all := pflag.NewFlagSet("all", pflag.ContinueOnError)
	genericclioptions.NewConfigFlags(true).AddFlags(all)
	root := NewRootCommand(genericiooptions.NewTestIOStreamsDiscard())
	all.VisitAll(func(flag *pflag.Flag) {
		if root.PersistentFlags().Lookup(flag.Name) == nil {
			t.Errorf("--%s is missing", flag.Name)
		}
	})
	if usage := root.PersistentFlags().Lookup("namespace").Usage; !strings.Contains(usage, "objects") {
		t.Errorf("--namespace does not say that it is for objects: %q", usage)
	}
}

func TestUsageErrors(t *testing.T) {
	for name, test := range map[string]struct {
		args       []string
		want, help string
	}{
		"unknown command":    {[]string{"frobnicate"}, `unknown command "frobnicate"`, ""},
		"misspelt command":   {[]string{"versoin"}, `unknown command "versoin"; did you mean "version"?`, ""},
		"unknown help topic": {[]string{"help", "versoin"}, `unknown command "versoin"; did you mean "version"?`, ""},
		"unknown flag":       {[]string{"version", "--frobnicate"}, "unknown flag: --frobnicate", " version"},
		"unknown root flag":  {[]string{"--frobnicate"}, "unknown flag: --frobnicate", ""},
		"unexpected word":    {[]string{"version", "now"}, `unexpected argument "now": kubectl crdver version [flags]`, " version"},
		"too many words":     {[]string{"help", "a", "b"}, "wrong number of arguments (2): kubectl crdver help [COMMAND] [flags]", " help"},
		"bad value":          {[]string{"version", "-o", "xml"}, `--output must be json or yaml, not "xml"`, " version"},
		"escapes":            {[]string{"\x1b[2J"}, `unknown command "\x1b[2J"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			want := result{code: 1, stderr: "error: " + test.want + "\nSee 'kubectl crdver" + test.help + " --help' for usage.\n"}
			if got := runPlugin(t, test.args...); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// withVerb returns a root command with one more verb.
func withVerb(t *testing.T, verb *cobra.Command) (root *cobra.Command, out, errOut *bytes.Buffer) {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	root = NewRootCommand(streams)
	root.AddCommand(verb)
	instrument(verb)
	return root, out, errOut
}

func TestTimeoutAndInterrupt(t *testing.T) {
	wait := func(command *cobra.Command, _ []string) error {
		<-command.Context().Done()
		return errors.New("3 of 5 objects are left; run the same command again")
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		args []string
		want int
	}{
		"timeout":   {t.Context(), []string{"wait", "--timeout", "1ms"}, ExitTimeout},
		"interrupt": {canceled, []string{"wait", "--timeout", "1h"}, ExitInterrupted},
		"no limit":  {canceled, []string{"wait"}, ExitInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			verb := &cobra.Command{Use: "wait", RunE: wait}
			AddTimeoutFlag(verb, "How long to wait")
			root, out, errOut := withVerb(t, verb)
			got := execute(t, test.ctx, root, out, errOut, test.args...)
			want := result{code: test.want, stderr: "error: 3 of 5 objects are left; run the same command again\n"}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestFlagRulesAreUsageErrors(t *testing.T) {
	newVerb := func() *cobra.Command {
		verb := &cobra.Command{Use: "verb", RunE: func(*cobra.Command, []string) error { return errors.New("ran") }}
		verb.Flags().String("file", "", "File")
		verb.Flags().String("from", "", "From")
		verb.Flags().Duration("age", time.Second, "Age")
		verb.MarkFlagsMutuallyExclusive("file", "from")
		if err := verb.MarkFlagRequired("age"); err != nil {
			t.Fatal(err)
		}
		return verb
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"required":  {[]string{"verb"}, `error: required flag(s) "age" not set`},
		"exclusive": {[]string{"verb", "--age=1s", "--file=a", "--from=b"}, "error: if any flags in the group [file from] are set none of the others can be"},
		"bad value": {[]string{"verb", "--age=1"}, `error: invalid argument "1" for "--age" flag: time: missing unit in duration "1"`},
	} {
		t.Run(name, func(t *testing.T) {
			root, out, errOut := withVerb(t, newVerb())
			got := execute(t, t.Context(), root, out, errOut, test.args...)
			lines := strings.Split(got.stderr, "\n")
			if got.code != 1 || got.stdout != "" || !strings.HasPrefix(got.stderr, test.want) ||
				!slices.Equal(lines[1:], []string{"See 'kubectl crdver verb --help' for usage.", ""}) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

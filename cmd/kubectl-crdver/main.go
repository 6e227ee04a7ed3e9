// Command kubectl-crdver is the kubectl plugin "kubectl crdver". Called by the
// name kubectl_complete-crdver it answers kubectl's questions about completion.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // The authentication plugins that kubeconfigs may name.

	"github.com/crdver/kubectl-crdver/pkg/cmd"
)

// completionName is the name that kubectl looks for, on PATH, to complete the
// words that come after "kubectl crdver".
const completionName = "kubectl_complete-crdver"

// patience is how long an interrupted command may take to stop before the
// user is told that it has heard. A second signal within this time is the same
// one again: timeout(1), and a shell whose terminal closes, signal a process and
// then its whole group.
const patience = time.Second

// version is set by the release with -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // A terminal that closes is no reason to leave things half done.
	status := make(chan os.Signal, 1)
	if wanted := statusSignals(); len(wanted) > 0 { // None would mean all.
		signal.Notify(status, wanted...)
	}
	os.Exit(run(streams, os.Args, signals, os.Exit, cmd.WithStatusRequests(status), cmd.WithKeepGoing(keepGoing)))
}

// keepGoing has the process outlive the readers of its output ("| head") until end is
// called: a migration must not end half-way for want of a reader. A command that only
// reads ends with its reader, quietly, as other tools do.
func keepGoing() (end func()) {
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)
	return func() { signal.Stop(unread) }
}

// run is the program: it returns the exit code. The first signal cancels what
// is running, another one, a while later, calls exit at once.
func run(streams genericiooptions.IOStreams, argv []string, signals <-chan os.Signal, exit func(code int), options ...cmd.Option) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go watchSignals(ctx, cancel, signals, streams.ErrOut, exit)

	root := cmd.NewRootCommand(streams, append(options, cmd.WithVersion(version))...)
	root.SetArgs(arguments(argv))
	err := root.ExecuteContext(ctx)
	cmd.PrintError(streams.ErrOut, err)
	return cmd.ExitCode(err)
}

// watchSignals ends the command on the first signal and the process on one that
// comes later.
func watchSignals(ctx context.Context, cancel context.CancelFunc, signals <-chan os.Signal, errOut io.Writer, exit func(code int)) {
	select {
	case <-signals:
		cancel()
	case <-ctx.Done():
		return
	}
	for heard := time.After(patience); heard != nil; {
		select {
		case <-signals: // The same one again.
		case <-heard:
			heard = nil
		}
	}
	// The notice is a courtesy: nothing depends on its being written.
	_, _ = fmt.Fprintln(errOut, "Interrupted: finishing what is in hand; interrupt again to stop at once")
	<-signals
	exit(cmd.ExitInterrupted)
}

// arguments returns the arguments for the root command: those of the process,
// or, under the name that kubectl calls for completion, the words to complete.
func arguments(argv []string) []string {
	if len(argv) == 0 {
		return []string{}
	}
	words := argv[1:]
	name := filepath.Base(argv[0])
	if strings.EqualFold(filepath.Ext(name), ".exe") {
		name = name[:len(name)-len(".exe")]
	}
	if name != completionName {
		return append([]string{}, words...)
	}
	if len(words) == 0 {
		words = []string{""}
	}
	return append([]string{cobra.ShellCompRequestCmd}, words...)
}

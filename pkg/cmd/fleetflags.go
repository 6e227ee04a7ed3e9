package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/crdver/kubectl-crdver/pkg/fleet"
)

// The defaults of asking many clusters.
const (
	defaultParallel       = 8
	defaultClusterTimeout = 30 * time.Second
)

// fleetHelp ends the help of commands that can ask many clusters.
const fleetHelp = `

With --contexts, --all-contexts or --kubeconfig-dir many clusters are asked at
once; the answer then has a column CONTEXT. A cluster that cannot be asked hides
no other: its row says why, and the exit code is 1.`

// fleetFlags are the flags that choose several clusters.
type fleetFlags struct {
	contexts []string
	all      bool
	dir      string
	parallel int
	timeout  time.Duration
	// only is the one member, where a command that can ask many asks one.
	only *fleet.Member
}

// fleetFlagNames are the flags that make several clusters of one.
func fleetFlagNames() []string { return []string{"contexts", "all-contexts", "kubeconfig-dir"} }

// oneCluster are the connection flags that belong to one cluster. Credentials are
// among them: they must not be sent to every cluster of a kubeconfig.
func oneCluster() []string {
	return []string{
		"context", "cluster", "user", "server", "tls-server-name", "certificate-authority", "client-certificate", "client-key", "token",
		"username", "password", "proxy-url",
	}
}

func (o *fleetFlags) add(f *Factory, command *cobra.Command) {
	flags := command.Flags()
	flags.StringSliceVar(&o.contexts, "contexts", nil, "Ask the clusters of these contexts: names, or patterns with * and ?")
	flags.BoolVar(&o.all, "all-contexts", false, "Ask the clusters of all contexts of the kubeconfig")
	flags.StringVar(&o.dir, "kubeconfig-dir", "", "Ask the clusters of all contexts of the kubeconfigs in this folder")
	flags.IntVar(&o.parallel, "parallel", defaultParallel, "How many clusters to ask at a time")
	flags.DurationVar(&o.timeout, "cluster-timeout", defaultClusterTimeout, "How long one of several clusters may take")
	if flags.Lookup("timeout") == nil {
		AddTimeoutFlag(command, "Give up after this time")
	}
	command.MarkFlagsMutuallyExclusive("contexts", "all-contexts")
	// The only errors are about flags that do not exist.
	_ = command.MarkFlagDirname("kubeconfig-dir")
	_ = command.RegisterFlagCompletionFunc("contexts", o.complete(f))
}

// complete offers the contexts.
func (o *fleetFlags) complete(f *Factory) completionFunc {
	return func(_ *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		members, err := o.known(f)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		given := ""
		if last := strings.LastIndex(toComplete, ","); last >= 0 {
			given, toComplete = toComplete[:last+1], toComplete[last+1:]
		}
		var names []string
		for _, one := range members {
			names = append(names, given+one.Name)
		}
		return withPrefix(names, given+toComplete), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// given reports whether several clusters are asked.
func (o *fleetFlags) given(command *cobra.Command) bool { return o.name(command) != "" }

// name returns the flag that chose them.
func (o *fleetFlags) name(command *cobra.Command) string {
	for _, name := range fleetFlagNames() {
		if command.Flags().Changed(name) && (name != "all-contexts" || o.all) {
			return "--" + name
		}
	}
	return ""
}

// check checks the flags against each other and against those of one cluster.
func (o *fleetFlags) check(command *cobra.Command) error {
	changed := command.Flags().Changed
	chosen := o.name(command)
	if chosen == "" {
		for _, name := range []string{"parallel", "cluster-timeout"} {
			if changed(name) {
				return UsageErrorf(command, "--%s is for several clusters: --contexts, --all-contexts or --kubeconfig-dir chooses them", name)
			}
		}
		return nil
	}
	for _, name := range oneCluster() {
		if changed(name) {
			return UsageErrorf(command, "--%s belongs to one cluster, and %s asks several: leave one of them out", name, chosen)
		}
	}
	switch {
	case changed("contexts") && (len(o.contexts) == 0 || slices.Contains(o.contexts, "")):
		return UsageErrorf(command, "--contexts is empty: name contexts; kubectl config get-contexts lists them")
	case changed("kubeconfig-dir") && o.dir == "":
		return UsageErrorf(command, "--kubeconfig-dir is empty: name a folder")
	case o.dir != "" && changed("kubeconfig"):
		return UsageErrorf(command, "the kubeconfigs are in --kubeconfig or in --kubeconfig-dir, not both")
	case o.parallel < 1:
		return UsageErrorf(command, "--parallel %d: it must be at least 1", o.parallel)
	case o.timeout <= 0:
		return UsageErrorf(command, "--cluster-timeout %s: it must be longer than 0", o.timeout)
	}
	return nil
}

// known returns all contexts that there are to choose from.
func (o *fleetFlags) known(f *Factory) ([]fleet.Member, error) {
	if o.dir != "" {
		return fleet.FromDir(o.dir)
	}
	raw, err := f.ConfigFlags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	members := fleet.FromConfig(raw)
	if len(members) == 0 {
		return nil, errors.New("the kubeconfig has no contexts: set KUBECONFIG, --kubeconfig or --kubeconfig-dir")
	}
	return members, nil
}

// members returns the contexts that the flags choose.
func (o *fleetFlags) members(f *Factory) ([]fleet.Member, error) {
	if o.only != nil {
		return []fleet.Member{*o.only}, nil
	}
	known, err := o.known(f)
	if err != nil {
		return nil, err
	}
	return fleet.Choose(known, o.contexts)
}

// member is one of several clusters: a Factory that leads to it, and what it tells
// its reader, which is kept until all have answered.
type member struct {
	*Factory
	fleet.Member

	// told is nil for the only one, which tells its reader at once.
	told *toldBuffer
}

// toldBuffer is a buffer that several goroutines write to.
type toldBuffer struct {
	lock   sync.Mutex
	buffer bytes.Buffer
}

func (b *toldBuffer) Write(p []byte) (int, error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.buffer.Write(p) //nolint:wrapcheck // It never fails.
}

func (b *toldBuffer) String() string {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.buffer.String()
}

// on returns the Factory of a member. It shares nothing with f that is written to.
func (f *Factory) on(one fleet.Member) member {
	told := &toldBuffer{}
	m := NewFactory(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &toldBuffer{}, ErrOut: told}, f.version)
	copyFlags(m.ConfigFlags, f.ConfigFlags)
	*m.ConfigFlags.Context = one.Context
	if one.Kubeconfig != "" {
		*m.ConfigFlags.KubeConfig = one.Kubeconfig
	}
	return member{Factory: m, Member: one, told: told}
}

// copyFlags copies the values of those connection flags that are for any cluster.
func copyFlags(to, from *genericclioptions.ConfigFlags) {
	*to.CacheDir, *to.KubeConfig, *to.Namespace = *from.CacheDir, *from.KubeConfig, *from.Namespace
	*to.Insecure, *to.Timeout, *to.DisableCompression = *from.Insecure, *from.Timeout, *from.DisableCompression
	*to.Impersonate, *to.ImpersonateUID = *from.Impersonate, *from.ImpersonateUID
	*to.ImpersonateGroup = slices.Clone(*from.ImpersonateGroup)
	if from.ImpersonateUserExtra != nil {
		*to.ImpersonateUserExtra = slices.Clone(*from.ImpersonateUserExtra)
	}
}

// words are the connection flags of a member, for commands to paste.
func (m member) words(command *cobra.Command) []string {
	if m.told == nil { // The only one.
		return connectionWords(command)
	}
	var words []string
	switch flag := command.Flags().Lookup("kubeconfig"); {
	case m.Kubeconfig != "":
		words = append(words, "--kubeconfig", shellQuote(m.Kubeconfig))
	case flag != nil && flag.Changed:
		words = append(words, "--kubeconfig", shellQuote(flag.Value.String()))
	}
	return append(words, "--context", shellQuote(m.Member.Context))
}

// flagError is what a flag that a command does not have comes to. Those that
// choose several clusters are known, and no command that changes anything has them.
func flagError(command *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && slices.Contains(fleetFlagNames(), unknown.GetSpecifiedName()) {
		err = fmt.Errorf("%s acts on one cluster at a time: name it with --context instead of --%s", command.Name(), unknown.GetSpecifiedName())
	}
	return UsageError(command, err)
}

package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/manifestuse"
	"github.com/crdver/kubectl-crdver/pkg/source"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// usageManifests are the flags for manifests in files.
type usageManifests struct {
	files  []string
	crd    string
	fix    bool
	dryRun bool
	to     string
	// offline says why no cluster is asked; empty if one is.
	offline string
	// stdin is what was read of standard input when the CRD was looked for.
	stdin io.Reader
}

func (m *usageManifests) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringSliceVarP(&m.files, "filename", "f", nil,
		"Manifests that may name the version: files, folders with all that is below them, or - for standard input; templates, too")
	flags.StringVar(&m.crd, "crd", "", "Manifest of the CRD: only files are looked at, and no cluster is asked")
	flags.BoolVar(&m.fix, "fix", false, "Rewrite the apiVersion in the manifests (-f) where that loses nothing; all else stays as it is")
	flags.BoolVar(&m.dryRun, "dry-run", false, "With --fix, print the changes and write nothing")
	flags.StringVar(&m.to, "to", "", "With --fix, the version to write; without it, the served one with the highest priority")
	_ = command.MarkFlagFilename("crd", "yaml", "yml", "json") // The only error is about a flag that does not exist.
	for _, other := range []string{"watch", "audit-log", "helm", "could"} {
		command.MarkFlagsMutuallyExclusive("fix", other)
	}
}

func (m *usageManifests) check(command *cobra.Command) error {
	switch {
	case slices.Contains(m.files, ""):
		return UsageErrorf(command, "--filename is empty: name a file, a folder or -")
	case m.fix && len(m.files) == 0:
		return UsageErrorf(command, "--fix rewrites manifests: name them with --filename")
	case m.fix && command.Flags().Changed("output"):
		return UsageErrorf(command, "--fix prints no table, and with --dry-run the changes: leave --output out")
	case m.fix && slices.Contains(m.files, manifestuse.Stdin):
		return UsageErrorf(command, "--fix edits files, and standard input is none")
	case !m.fix && m.dryRun:
		return UsageErrorf(command, "--dry-run belongs to --fix: usage writes nothing without it")
	case !m.fix && m.to != "":
		return UsageErrorf(command, "--to belongs to --fix")
	case m.crd != "" && len(m.files) == 0:
		return UsageErrorf(command, "--crd is for looking into files: name them with --filename")
	case m.crd != "" && command.Flags().Changed("watch"):
		return UsageErrorf(command, "--watch asks a cluster, and --crd none")
	}
	return nil
}

// words are the flags for a command to paste.
func (m *usageManifests) words() []string {
	var words []string
	for _, file := range m.files {
		words = append(words, "--filename", shellQuote(file))
	}
	return words
}

// unlooked says that no files were given, or that nothing else was looked at.
func (m *usageManifests) unlooked() []v1alpha1.Unlooked {
	var missing []v1alpha1.Unlooked
	if len(m.files) == 0 {
		missing = append(missing, v1alpha1.Unlooked{Source: v1alpha1.UsageManifest, Why: "no files were given", Command: "--filename DIR", Optional: true})
	}
	if m.offline != "" {
		missing = append(missing, v1alpha1.Unlooked{Source: v1alpha1.UsageManagedFields, Why: m.offline})
	}
	return missing
}

// look reads the files before anything is asked of a cluster: those that are not
// there are a mistake of the user.
func (m *usageManifests) look(ctx context.Context, f *Factory, targets []usage.Target) ([]usage.Collector, error) {
	if len(m.files) == 0 {
		return nil, nil
	}
	found, err := manifestuse.Look(ctx, m.tree(f), targets)
	if err != nil {
		return nil, err
	}
	return []usage.Collector{found}, nil
}

// tree is what --filename names.
func (m *usageManifests) tree(f *Factory) manifestuse.Tree {
	return manifestuse.Tree{Names: m.files, Stdin: cmp.Or(m.stdin, f.In)}
}

// targets resolves the arguments with the CRDs of the file that --crd names.
func (m *usageManifests) targets(ctx context.Context, f *Factory, args []string) ([]usage.Target, error) {
	crds, err := source.Manifests(ctx, f.IOStreams, resource.FilenameOptions{Filenames: []string{m.crd}})
	if err != nil {
		return nil, err
	}
	m.offline = "with --crd, no cluster is asked about this and all else"
	version, names := versionOf(crds, args)
	targets := targetsAmong(crds, version, names)
	if len(targets) == 0 {
		return nil, fmt.Errorf("%s has no CRD called %s", m.crd, strings.Join(names, ", "))
	}
	return targets, nil
}

// versionOf takes VERSION off the arguments: what looks like one, or is one of a CRD.
func versionOf(crds []crd.CRD, args []string) (version string, names []string) {
	if len(args) == 0 {
		return "", nil
	}
	name, explicit := strings.CutPrefix(args[0], versionPrefix)
	has := func(one crd.CRD) bool { return one.Version(name) != nil }
	if explicit || conforms(name) || slices.ContainsFunc(crds, has) {
		return name, args[1:]
	}
	return "", args
}

// targetsAmong are the CRDs that names name; all, without names.
func targetsAmong(crds []crd.CRD, version string, names []string) []usage.Target {
	var targets []usage.Target
	for _, one := range crds {
		if len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return isNamed(one, name) }) {
			continue
		}
		target := usage.Target{CRD: one, Versions: one.VersionNames()}
		if version != "" {
			target.Versions = []string{version}
		}
		targets = append(targets, target)
	}
	return targets
}

// isNamed tells whether an argument names a CRD.
func isNamed(one crd.CRD, arg string) bool {
	arg = strings.ToLower(strings.TrimPrefix(arg, "crd/"))
	names := one.Spec.Names
	return slices.Contains([]string{one.Name, names.Plural, names.Singular, strings.ToLower(names.Kind)}, arg)
}

// reportOfFiles looks at files only.
func (o *usageOptions) reportOfFiles(ctx context.Context, f *Factory, targets []usage.Target) (*v1alpha1.UsageReport, error) {
	looking, err := o.sources.manifests.look(ctx, f, targets)
	if err != nil {
		return nil, err
	}
	audit, err := o.sources.requests.readAuditLogs(ctx, f, o.window, targets)
	if err != nil {
		return nil, err
	}
	options := usage.Options{Window: o.window, Now: now, NotLooked: o.sources.manifests.unlooked()}
	report, err := usage.Report(ctx, append(looking, audit), targets, options, o.again)
	if err != nil {
		return nil, err
	}
	report.TypeMeta = typeMeta(v1alpha1.KindUsageReport)
	return report, nil
}

// withSchemas returns the CRD with its schemas, which targets of a cluster lack.
func (o *usageOptions) withSchemas(ctx context.Context, f *Factory, target usage.Target) (crd.CRD, error) {
	if o.sources.manifests.offline != "" {
		return target.CRD, nil
	}
	client, err := f.Cluster()
	if err != nil {
		return crd.CRD{}, err
	}
	live, err := client.CRDs().Get(ctx, target.CRD.Name)
	if err != nil {
		return crd.CRD{}, fmt.Errorf("reading CRD %s: %w", target.CRD.Name, err)
	}
	return crd.Live(live), nil
}

// rewriter returns what rewrites the manifests of the only target.
func (o *usageOptions) rewriter(ctx context.Context, f *Factory, targets []usage.Target) (*manifestuse.Rewriter, error) {
	if len(targets) != 1 || len(targets[0].Versions) != 1 {
		return nil, errors.New("--fix rewrites one version of one CRD: name both, as in 'kubectl crdver usage VERSION CRD -f DIR --fix'")
	}
	target := targets[0]
	from, to := target.Versions[0], o.sources.manifests.to
	one, err := o.withSchemas(ctx, f, target)
	if err != nil {
		return nil, err
	}
	if to == "" {
		to = one.KubectlDefault()
	}
	switch version := one.Version(to); {
	case to == from:
		return nil, fmt.Errorf("%s is the version to move to: name another one with --to", to)
	case version == nil || !version.Served:
		return nil, fmt.Errorf("the CRD %s does not serve a version %q (it serves %s)", one.Name, to, strings.Join(one.Served(), ", "))
	case one.ConversionStrategy() != "None":
		return nil, Refused(fmt.Errorf("the CRD %s converts with a webhook: more than the apiVersion of its manifests can differ, and only the webhook knows how; "+
			"see 'kubectl crdver convert --help'", one.Name))
	}
	return manifestuse.NewRewriter(one, manifestuse.WantedOf(target), to)
}

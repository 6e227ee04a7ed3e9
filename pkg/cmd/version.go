package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/spf13/cobra"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/printers"
)

// testedMinor is the oldest Kubernetes minor version of major 1 that the
// plugin is tested on.
const testedMinor = 37

// unknownVersion is the version of a build that nobody numbered.
const unknownVersion = "v0.0.0-dev"

const versionLong = `Print the version of this plugin and of the server.

The server's version is only shown for information: what a command can do on a
cluster is found out from the cluster's API, never from its version number.`

const versionExample = `  # Print the version of the plugin and of the server
  kubectl crdver version

  # Print the version of the plugin without contacting a server
  kubectl crdver version --client

  # Print both versions as JSON
  kubectl crdver version -o json`

// versionInfo is what "version -o json" prints; it has kubectl's field names.
type versionInfo struct {
	ClientVersion clientInfo       `json:"clientVersion"`
	ServerVersion *apiversion.Info `json:"serverVersion,omitempty"`
}

// clientInfo says how the plugin was built.
type clientInfo struct {
	GitVersion          string `json:"gitVersion"`
	GitCommit           string `json:"gitCommit,omitempty"`
	GitTreeState        string `json:"gitTreeState,omitempty"`
	BuildDate           string `json:"buildDate,omitempty"`
	KubernetesLibraries string `json:"kubernetesLibraries,omitempty"`
	GoVersion           string `json:"goVersion"`
	Compiler            string `json:"compiler"`
	Platform            string `json:"platform"`
}

type versionOptions struct {
	clientOnly bool
	output     string
}

func newVersionCommand(f *Factory) *cobra.Command {
	var o versionOptions
	command := &cobra.Command{
		Use:               "version",
		Short:             "Print the version of the plugin and of the server",
		Long:              versionLong,
		Example:           versionExample,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return UsageError(command, err)
			}
			return o.run(command.Context(), f)
		},
	}
	command.Flags().BoolVar(&o.clientOnly, "client", false, "Print the plugin's version only, without contacting a server")
	command.Flags().StringVarP(&o.output, "output", "o", "", "Output format: json or yaml")
	completeFlag(command, "output", "json", "yaml")
	return command
}

func (o *versionOptions) validate() error {
	switch o.output {
	case "", "json", "yaml":
		return nil
	default:
		return fmt.Errorf("--output must be json or yaml, not %q", o.output)
	}
}

// run prints what it knows even when the server does not answer, and then
// returns the error.
func (o *versionOptions) run(ctx context.Context, f *Factory) error {
	build, _ := debug.ReadBuildInfo()
	info := versionInfo{ClientVersion: describeBuild(f.version, build)}
	var serverErr error
	if !o.clientOnly {
		info.ServerVersion, serverErr = serverVersion(ctx, f)
	}
	if err := o.print(f, info); err != nil {
		return err
	}
	if info.ServerVersion != nil {
		if notice := skewNotice(info.ServerVersion.GitVersion); notice != "" {
			f.Warn(notice)
		}
	}
	return serverErr
}

func (o *versionOptions) print(f *Factory, info versionInfo) error {
	var text []byte
	var err error
	switch o.output {
	case "json":
		text, err = json.MarshalIndent(info, "", "  ")
		text = append(text, '\n')
	case "yaml":
		text, err = yaml.Marshal(info)
	default:
		text = fmt.Appendf(nil, "Client Version: %s\n", info.ClientVersion.GitVersion)
		if info.ServerVersion != nil {
			text = fmt.Appendf(text, "Server Version: %s\n", printers.Escape(info.ServerVersion.GitVersion))
		}
	}
	if err != nil {
		return fmt.Errorf("encoding the version: %w", err)
	}
	if _, err := f.Out.Write(text); err != nil {
		return fmt.Errorf("writing the version: %w", err)
	}
	return nil
}

func serverVersion(ctx context.Context, f *Factory) (*apiversion.Info, error) {
	// RESTConfig first: it tells a missing configuration from a server that
	// does not answer.
	if _, err := f.RESTConfig(); err != nil {
		return nil, err
	}
	client, err := f.ConfigFlags.ToDiscoveryClient()
	if err != nil {
		return nil, fmt.Errorf("discovery client: %w", err)
	}
	version, err := discovery.ToServerVersionInterfaceWithContext(client).ServerVersionWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the server's version: %w", err)
	}
	return version, nil
}

// skewNotice returns what to say about a server of the given version, empty
// when there is nothing to say. Vendors' suffixes ("-eks-1a2b") do not count.
func skewNotice(gitVersion string) string {
	server, err := semver.NewVersion(gitVersion)
	if err != nil || server.Major() == 0 {
		return ""
	}
	oldest := semver.New(1, testedMinor, 0, "", "")
	if !semver.New(server.Major(), server.Minor(), 0, "", "").LessThan(oldest) {
		return ""
	}
	return fmt.Sprintf("the server is Kubernetes %d.%d; this plugin is tested on %d.%d and newer",
		server.Major(), server.Minor(), oldest.Major(), oldest.Minor())
}

// describeBuild says how the plugin was built. version is the number that the
// release set; without one, that of the module that "go install" built.
func describeBuild(version string, build *debug.BuildInfo) clientInfo {
	info := clientInfo{
		GitVersion: version,
		GoVersion:  runtime.Version(),
		Compiler:   runtime.Compiler,
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
	}
	if build != nil {
		if info.GitVersion == "" {
			info.GitVersion = build.Main.Version
		}
		for _, setting := range build.Settings {
			switch setting.Key {
			case "vcs.revision":
				info.GitCommit = setting.Value
			case "vcs.time":
				info.BuildDate = setting.Value
			case "vcs.modified":
				info.GitTreeState = map[string]string{"true": "dirty", "false": "clean"}[setting.Value]
			}
		}
		for _, module := range build.Deps {
			if module.Path == "k8s.io/client-go" {
				info.KubernetesLibraries = module.Version
			}
		}
	}
	if _, err := semver.StrictNewVersion(strings.TrimPrefix(info.GitVersion, "v")); err != nil {
		info.GitVersion = unknownVersion
	}
	return info
}

// clientVersion returns the plugin's own version.
func clientVersion(version string) string {
	build, _ := debug.ReadBuildInfo()
	return describeBuild(version, build).GitVersion
}

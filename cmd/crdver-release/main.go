// Command crdver-release builds the archives of a release and the krew
// manifest that names them. The same source gives the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// manifestFiles are the committed manifests, which have the same content: the
// first is submitted to the krew index, the second makes this repository an
// index of its own.
func manifestFiles() []string {
	return []string{"krew-manifest.yaml", filepath.Join("plugins", "crdver.yaml")}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

// options is what the command line says.
type options struct {
	version   string
	out       string
	platforms []string
	write     bool
}

// run makes a release of the module in the current directory.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(manifestFiles()[0])
	if err != nil {
		return fmt.Errorf("reading the manifest (run this in the root of the repository): %w", err)
	}
	m, err := parseManifest(text)
	if err != nil {
		return err
	}
	platforms, err := m.choose(o.platforms)
	if err != nil {
		return err
	}
	if o.write && len(platforms) != len(m.platforms()) {
		return errors.New("-write needs all platforms: the committed manifests would lose the others")
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return fmt.Errorf("creating the output folder: %w", err)
	}

	built := map[platform]artifact{}
	for _, p := range platforms {
		a, err := release(ctx, o, p, stderr)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		built[p] = a
		if _, err := fmt.Fprintf(stdout, "%s  binary %.1f MB, archive %.1f MB\n", filepath.Join(o.out, a.name), megabytes(a.binarySize), megabytes(a.size)); err != nil {
			return fmt.Errorf("writing progress: %w", err)
		}
	}
	return writeResults(o, text, built)
}

// parse reads the command line.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var platforms string
	flags := flag.NewFlagSet("crdver-release", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.version, "version", "", "version of the release, vX.Y.Z")
	flags.StringVar(&o.out, "out", "dist", "folder that the archives are written to")
	flags.StringVar(&platforms, "platforms", "", "platforms to build, as in linux/amd64,darwin/arm64 (default all)")
	flags.BoolVar(&o.write, "write", false, "also write version and checksums into the committed manifests")
	if err := flags.Parse(args); err != nil {
		return options{}, fmt.Errorf("command line: %w", err)
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err := checkVersion(o.version); err != nil {
		return options{}, err
	}
	if platforms != "" {
		o.platforms = strings.Split(platforms, ",")
	}
	return o, nil
}

// checkVersion accepts what krew and the tags of this repository accept.
func checkVersion(version string) error {
	bare, ok := strings.CutPrefix(version, "v")
	if !ok {
		return fmt.Errorf("-version must be vX.Y.Z, not %q", version)
	}
	parsed, err := semver.StrictNewVersion(bare)
	if err != nil {
		return fmt.Errorf("-version %q: %w", version, err)
	}
	if parsed.Metadata() != "" {
		return fmt.Errorf("-version %q: build metadata (+%s) is not allowed in a release", version, parsed.Metadata())
	}
	return nil
}

// writeResults writes the checksums, the manifest of what was built and, on
// request, the committed manifests.
func writeResults(o options, manifestText []byte, built map[platform]artifact) error {
	rendered, err := render(manifestText, o.version, built)
	if err != nil {
		return err
	}
	files := map[string][]byte{
		filepath.Join(o.out, "crdver.yaml"):   rendered,
		filepath.Join(o.out, "checksums.txt"): checksums(built),
	}
	if o.write {
		for _, name := range manifestFiles() {
			files[name] = rendered
		}
	}
	for name, content := range files {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return fmt.Errorf("writing the results: %w", err)
		}
	}
	return nil
}

// checksums lists the archives as "sha256sum --check" reads them.
func checksums(built map[platform]artifact) []byte {
	var lines []string
	for _, a := range built {
		lines = append(lines, fmt.Sprintf("%s  %s\n", a.sha256, a.name))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return []byte(strings.Join(lines, ""))
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }

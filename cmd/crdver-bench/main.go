// Command crdver-bench measures this tool against the ways of others, on one
// server in one run, and checks the budgets.
//
//	crdver-bench migrate  compares the ways of rewriting objects
//	crdver-bench scale    compares the clients' memory at 10,000 and 100,000 objects
//	crdver-bench check    checks the budgets, and fails when one is exceeded
//
// It runs the full control plane where KUBEBUILDER_ASSETS says where its binaries
// are, and otherwise the API server of this module, in a process of its own either
// way.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := mainErr(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func mainErr(ctx context.Context, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("looking for the programs: %w", err)
	}
	dir := filepath.Dir(self)
	return run(ctx, args, options{
		self: []string{self}, client: []string{filepath.Join(dir, "crdver-bench-client")}, plugin: filepath.Join(dir, "kubectl-crdver"),
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
	})
}

// The beds.
const (
	bedAuto      = "auto"
	bedFull      = "full"
	bedInProcess = "in-process"
)

// options is what the command line says, and the programs that are run.
type options struct {
	// self and client are this program and that of the clients, with arguments
	// that come first. plugin is kubectl-crdver; without it, it takes no part.
	self, client []string
	plugin       string
	// idleFor is how long the server is watched while nobody asks it.
	idleFor time.Duration

	bed         string
	objects     int
	objectBytes int
	rounds      int
	only        []string
	output      string
	// save is a directory for the results in both formats.
	save string

	stdin          io.Reader
	stdout, stderr io.Writer
}

// run is the program.
func run(ctx context.Context, args []string, o options) error {
	if len(args) == 2 && args[0] == "serve" { // Not for people: see startServe.
		return serve(ctx, args[1], o.stdin, o.stdout)
	}
	if len(args) == 0 {
		return errors.New("a command is missing: use migrate, scale or check")
	}
	verb, rest := args[0], args[1:]
	switch verb {
	case "migrate":
		if err := o.parse(verb, rest, 5000, 8192); err != nil {
			return err
		}
		results, err := migrate(ctx, o)
		if err != nil {
			return err
		}
		return o.print(verb, results)
	case "scale":
		if err := o.parse(verb, rest, 100_000, 2048); err != nil {
			return err
		}
		results, err := scale(ctx, o)
		if err != nil {
			return err
		}
		return o.print(verb, results)
	case "check":
		o.rounds = 5
		if err := o.parse(verb, rest, 2000, 8192); err != nil {
			return err
		}
		results, err := check(ctx, o)
		if err != nil {
			return err
		}
		return errors.Join(o.print(verb, results), results.failed())
	default:
		return fmt.Errorf("unknown command %q: use migrate, scale or check", verb)
	}
}

// parse reads the command line.
func (o *options) parse(verb string, args []string, objects, objectBytes int) error {
	var only string
	flags := flag.NewFlagSet("crdver-bench "+verb, flag.ContinueOnError)
	flags.SetOutput(o.stderr)
	flags.StringVar(&o.bed, "bed", bedAuto, "server: full (etcd and kube-apiserver), in-process (the API server of this module) or auto")
	flags.IntVar(&o.objects, "objects", objects, "number of objects")
	flags.IntVar(&o.objectBytes, "object-bytes", objectBytes, "size of an object")
	flags.IntVar(&o.rounds, "rounds", cmp.Or(o.rounds, 3), "number of rounds, of which the medians are taken")
	flags.StringVar(&only, "only", "", "names of contestants or of budgets, separated by commas (default all)")
	flags.StringVar(&o.output, "o", "markdown", "output format: markdown or json")
	flags.StringVar(&o.plugin, "plugin", o.plugin, "kubectl-crdver to measure")
	flags.DurationVar(&o.idleFor, "idle", 5*time.Second, "how long to watch the server while nobody asks it")
	flags.StringVar(&o.save, "save", "", "directory to write the results to, in both formats, besides")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("command line: %w", err)
	}
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	return o.validate(verb, flags.Args())
}

func (o *options) validate(verb string, rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case o.objects < 8 || o.rounds < 1 || o.objectBytes < 1 || o.idleFor <= 0:
		return errors.New("-objects must be at least 8, -rounds, -object-bytes and -idle positive")
	case verb == "check" && o.rounds < 2:
		return errors.New("-rounds must be at least 2: the best load generator of a round is told from the others")
	case o.bed != bedAuto && o.bed != bedFull && o.bed != bedInProcess:
		return fmt.Errorf("unknown -bed %q: use auto, full or in-process", o.bed)
	case o.output != "markdown" && o.output != "json":
		return fmt.Errorf("unknown -o %q: use markdown or json", o.output)
	}
	for _, name := range o.only {
		if !slices.Contains(choices(verb), name) {
			return fmt.Errorf("unknown name %q in -only: use %s", name, strings.Join(choices(verb), ", "))
		}
	}
	if o.plugin != "" {
		if _, err := os.Stat(o.plugin); err != nil {
			return fmt.Errorf("looking for the plugin (make build builds it): %w", err)
		}
	}
	return nil
}

// choices returns what -only may name.
func choices(verb string) []string {
	var names []string
	if verb == "check" {
		for _, c := range budgetChecks() {
			names = append(names, c.name)
		}
		return names
	}
	for _, c := range contestants() {
		names = append(names, c.ID)
	}
	return names
}

// printable is what every command ends with.
type printable interface{ markdown(w io.Writer) error }

// print prints results in the format that was asked for, and saves them.
func (o *options) print(verb string, results printable) error {
	if o.save != "" {
		if err := save(filepath.Join(o.save, verb), results); err != nil {
			return err
		}
	}
	if o.output == "markdown" {
		return results.markdown(o.stdout)
	}
	return printJSON(o.stdout, results)
}

func printJSON(w io.Writer, results printable) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(results); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

// save writes results into two files.
func save(path string, results printable) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("saving the results: %w", err)
	}
	for extension, print := range map[string]func(io.Writer) error{
		".md":   results.markdown,
		".json": func(w io.Writer) error { return printJSON(w, results) },
	} {
		var text bytes.Buffer
		if err := print(&text); err != nil {
			return err
		}
		if err := os.WriteFile(path+extension, text.Bytes(), 0o644); err != nil {
			return fmt.Errorf("saving the results: %w", err)
		}
	}
	return nil
}

package cmd

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/observe"
	"github.com/crdver/kubectl-crdver/pkg/printers"
	"github.com/crdver/kubectl-crdver/pkg/source"
)

// readers is how many CRDs are looked at at the same time.
const readers = 32

// readFlags are the flags that say which CRDs a reading command is about.
type readFlags struct {
	files    resource.FilenameOptions
	selector string
}

func (r *readFlags) add(command *cobra.Command) {
	source.AddFlags(command, &r.files, "CRDs to read instead of a cluster's")
	command.Flags().StringVarP(&r.selector, "selector", "l", "", "Label selector for CRDs, as in 'app=x,tier in (a,b)'")
}

// local reports whether manifests are read and not a cluster.
func (r *readFlags) local() bool { return r.files.RequireFilenameOrKustomize() == nil }

// validate checks the flags and the names against each other.
func (r *readFlags) validate(command *cobra.Command, args []string) error {
	if _, err := labels.Parse(r.selector); err != nil {
		return UsageErrorf(command, "invalid --selector: %w", err)
	}
	if err := checkFiles(command, r.files); err != nil {
		return err
	}
	switch {
	case r.local() && len(args) > 0:
		return UsageErrorf(command, "CRDs are named on a cluster or read from manifests, not both: leave out %q, or -f and -k", args[0])
	case r.files.Recursive && len(r.files.Filenames) == 0:
		return UsageErrorf(command, "-R needs -f FOLDER")
	case r.selector != "" && len(args) > 0:
		return UsageErrorf(command, "CRDs are named or selected with -l, not both")
	}
	return nil
}

// checkFiles refuses an -f or -k without a value: it stands for a variable of a
// script that is not set, and must not mean the whole cluster.
func checkFiles(command *cobra.Command, options resource.FilenameOptions) error {
	stdin := 0
	for _, name := range options.Filenames {
		if name == "-" {
			stdin++
		}
	}
	switch {
	case command.Flags().Changed("filename") && (len(options.Filenames) == 0 || slices.Contains(options.Filenames, "")):
		return UsageErrorf(command, "-f is empty: name a file, a folder or -")
	case command.Flags().Changed("kustomize") && options.Kustomize == "":
		return UsageErrorf(command, "-k is empty: name a folder")
	case stdin > 1:
		return UsageErrorf(command, "standard input can be read only once: name '-' only once")
	}
	return nil
}

// reading is one run of a reading command.
type reading struct {
	*Factory
	flags readFlags
	args  []string
	// look is what to observe around each CRD of a cluster.
	look observe.Options
	// whole hands out CRDs with their schemas and manifests, those that the server
	// has not established, too. What is wrong with a manifest's status is then
	// the work's to say.
	whole bool
}

// slim returns what the work gets of a CRD.
func (r reading) slim(one crd.CRD) crd.CRD {
	if r.whole {
		return one
	}
	return source.Slim(one)
}

// read calls work for the State of each CRD, several at a time, and returns the
// results: those of manifests in their order, those of a cluster by name. No
// CRD is kept. Warnings about the input are printed. Where a manifest cannot be
// read, the results of the others come with the error.
func read[T any](ctx context.Context, r reading, work func(lifecycle.State) T) ([]T, error) {
	if r.flags.local() {
		return readManifests(ctx, r, work)
	}
	client, err := r.Cluster()
	if err != nil {
		return nil, err
	}
	return readCluster(ctx, r, client, work)
}

func readManifests[T any](ctx context.Context, r reading, work func(lifecycle.State) T) ([]T, error) {
	selector, err := labels.Parse(r.flags.selector)
	if err != nil {
		return nil, fmt.Errorf("invalid --selector: %w", err)
	}
	files := source.Files{FilenameOptions: r.flags.files, Stdin: r.In, Selector: selector}
	// Reading goes on while CRDs are looked at; the limit holds it back.
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	var found []*T
	summary, err := files.Load(ctx, func(one crd.CRD) error {
		slim, into := r.slim(one), new(T)
		found = append(found, into)
		group.Go(func() error {
			*into = work(lifecycle.New(slim, lifecycle.Observations{}))
			return nil
		})
		return nil
	})
	_ = group.Wait() // The workers return no errors.
	results := make([]T, len(found))
	for i, one := range found {
		results[i] = *one
	}
	if err != nil {
		return results, err
	}
	switch status := summary.WithStatus; {
	case len(status) == 0, r.whole:
	case len(status) == 1:
		r.Warn(fmt.Sprintf("status in a manifest has no effect, ignored: %s", status[0]))
	default:
		r.Warn(fmt.Sprintf("status in a manifest has no effect, ignored: %s and %d more", status[0], len(status)-1))
	}
	switch {
	case summary.Skipped == 1:
		r.note("Skipped 1 document that is not a CustomResourceDefinition")
	case summary.Skipped > 1:
		r.note(fmt.Sprintf("Skipped %d documents that are not CustomResourceDefinitions", summary.Skipped))
	}
	return results, nil
}

func readCluster[T any](ctx context.Context, r reading, client cluster.Interface, work func(lifecycle.State) T) ([]T, error) {
	type named struct {
		name   string
		result T
	}
	observer := observe.New(client)
	// The list goes on while CRDs are looked at; the limit holds it back.
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	var found []*named
	err := source.Each(ctx, client.CRDs(), r.args, source.Selection{Selector: r.flags.selector}, func(one crd.CRD) error {
		if len(r.args) > 0 && !r.whole && !one.Established() {
			return fmt.Errorf("the CRD %s is not established: %s", one.Name, notEstablished(one))
		}
		slim, into := r.slim(one), &named{name: one.Name}
		found = append(found, into)
		group.Go(func() error {
			into.result = work(lifecycle.New(slim, withClock(slim, observer.Observe(groupCtx, slim, r.look))))
			return nil
		})
		return nil
	})
	// The workers return no errors; what they could not read they noted.
	_ = group.Wait()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading the cluster: %w", err)
	}
	slices.SortStableFunc(found, func(a, b *named) int { return cmp.Compare(a.name, b.name) })
	results := make([]T, len(found))
	for i, one := range found {
		results[i] = one.result
	}
	return results, nil
}

// noteEmpty says on stderr that there is nothing, as kubectl does.
func (r reading) noteEmpty(found int) {
	if found == 0 {
		r.note("No resources found")
	}
}

// note writes a line to stderr. That it is not read is no reason to fail.
func (r reading) note(text string) { _, _ = fmt.Fprintln(r.ErrOut, text) }

// printerOf returns the printer of the flags; an unknown format is a mistake in
// how the command was called.
func printerOf(command *cobra.Command, flags *printers.Flags) (*printers.Printer, error) {
	printer, err := flags.ToPrinter()
	return printer, UsageError(command, err)
}

// crdName is what -o name prints for a CRD.
func crdName(name string) string { return "customresourcedefinition.apiextensions.k8s.io/" + name }

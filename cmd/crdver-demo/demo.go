package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

const (
	// objects is how many CronTabs the demo migrates.
	objects = 200
	// namespace is where they are.
	namespace = "crdver-demo"
	// oldVersion and newVersion are the way that the demo goes.
	oldVersion, newVersion = "v1beta1", "v1"
	// cleanupTimeout bounds the cleaning up after an interrupt.
	cleanupTimeout = 2 * time.Minute
)

// commands returns what the demo runs, as it is typed after "kubectl crdver". On a
// cluster with other CRDs it names its own.
func commands(crds ...string) [][]string {
	with := func(args ...string) []string { return append(args, crds...) }
	return [][]string{
		with("sort"),
		with("status"),
		append(with("promote", newVersion), "--yes"),
		with("status"),
		append(with("retire", oldVersion), "--yes", "--allow-in-use"), // The demo wrote them a moment ago.
		with("sort"),
	}
}

// options is what the demo is told.
type options struct {
	// plugins is the directory with kubectl-crdver.
	plugins string
	// keep leaves everything running until the context ends.
	keep bool
	// kubeconfig is that of a cluster to use. Empty starts a throwaway one.
	kubeconfig string
	out        io.Writer
	errOut     io.Writer
}

// demo is a run in progress.
type demo struct {
	options
	// dir holds the files of this run.
	dir string
	// program is kubectl, with arguments that come first, or the plugin itself.
	program []string
}

// run shows the whole way and fails when any part of it does.
func run(ctx context.Context, o options) (err error) {
	d := &demo{options: o}
	if d.program, err = findProgram(o.plugins); err != nil {
		return err
	}
	if d.dir, err = os.MkdirTemp("", "crdver-demo-"); err != nil {
		return fmt.Errorf("creating a directory: %w", err)
	}
	defer os.RemoveAll(d.dir) //nolint:errcheck // A leftover in the temporary directory is harmless.

	cluster, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		err = errors.Join(err, cluster.close(ctx))
	}()
	if err := d.show(ctx, cluster); err != nil {
		return err
	}
	if !d.keep {
		return nil
	}
	if err := d.say("\nThe API server is running. In another terminal:\n\n    export KUBECONFIG=%s\n    export PATH=%s%c$PATH\n\nCtrl-C here ends it.\n",
		cluster.kubeconfig, d.plugins, filepath.ListSeparator); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// findProgram returns how the plugin is called: as a plugin, where there is a
// kubectl, and otherwise directly.
func findProgram(plugins string) ([]string, error) {
	name := "kubectl-crdver"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	plugin := filepath.Join(plugins, name)
	if _, err := os.Stat(plugin); err != nil {
		return nil, fmt.Errorf("the plugin is missing, `make build` builds it: %w", err)
	}
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		return []string{plugin}, nil //nolint:nilerr // The demo needs no kubectl.
	}
	return []string{kubectl, "crdver"}, nil
}

// show fills the cluster, runs the commands, and proves what they did.
func (d *demo) show(ctx context.Context, c *cluster) error {
	if err := d.say("Creating CRD %s (%s stored, %s served) and %d objects, written at %s.\n",
		testbed.CronTabCRD, oldVersion, newVersion, objects, oldVersion); err != nil {
		return err
	}
	if err := c.fill(ctx); err != nil {
		return err
	}
	before, err := c.evidence(ctx)
	if err != nil {
		return err
	}
	if err := d.say("%s\n", before.text); err != nil {
		return err
	}
	var crds []string
	if c.etcd == nil {
		crds = append(crds, testbed.CronTabCRD)
	}
	for _, args := range commands(crds...) {
		if err := d.kubectl(ctx, c.kubeconfig, args); err != nil {
			return err
		}
	}
	after, err := c.evidence(ctx)
	if err != nil {
		return err
	}
	if err := d.say("\nBefore: %s\nAfter:  %s\n", before.text, after.text); err != nil {
		return err
	}
	return after.check()
}

// kubectl shows and runs one command.
func (d *demo) kubectl(ctx context.Context, kubeconfig string, args []string) error {
	line := "kubectl crdver " + strings.Join(args, " ")
	if err := d.say("\n$ %s\n", line); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, d.program[0], append(d.program[1:len(d.program):len(d.program)], args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = cleanupTimeout
	cmd.Stdout, cmd.Stderr = d.out, d.errOut
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+kubeconfig,
		"KUBECACHEDIR="+filepath.Join(d.dir, "cache"),
		"PATH="+d.plugins+string(filepath.ListSeparator)+os.Getenv("PATH"),
	)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	return nil
}

func (d *demo) say(format string, args ...any) error {
	if _, err := fmt.Fprintf(d.out, format, args...); err != nil {
		return fmt.Errorf("writing to standard output: %w", err)
	}
	return nil
}

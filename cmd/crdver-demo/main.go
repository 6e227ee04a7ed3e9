// Command crdver-demo shows a CRD's way from v1beta1 to v1: it starts a throwaway
// API server in this process, fills it, and runs the plugin against it.
//
// It is configured by the environment, for `make demo`: KEEP=1 leaves everything
// running until Ctrl-C, and DEMO_KUBECONFIG names the kubeconfig of a cluster to
// use instead of a throwaway one.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := mainErr(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func mainErr(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("looking for the plugin: %w", err)
	}
	return run(ctx, options{
		plugins:    filepath.Dir(self),
		keep:       os.Getenv("KEEP") != "",
		kubeconfig: os.Getenv("DEMO_KUBECONFIG"),
		out:        os.Stdout,
		errOut:     os.Stderr,
	})
}

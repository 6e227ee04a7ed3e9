// Command crdver-bench-client is one run of one way of rewriting objects.
// crdver-bench starts it, as a process of its own whose CPU time and memory
// nothing else shares.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/crdver/kubectl-crdver/pkg/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := bench.Main(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

//go:build unix && !(darwin || dragonfly || freebsd || netbsd || openbsd)

package main

import (
	"os"
	"syscall"
)

// statusSignals are those that ask where a run is: SIGUSR1.
func statusSignals() []os.Signal { return []os.Signal{syscall.SIGUSR1} }

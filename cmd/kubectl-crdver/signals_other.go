//go:build !unix

package main

import (
	"os"
)

// statusSignals are those that ask where a run is; there are none here.
func statusSignals() []os.Signal { return nil }

//go:build !linux

package testbed

import "os/exec"

// killWithParent does nothing: only Linux can do it.
func killWithParent(*exec.Cmd) {}

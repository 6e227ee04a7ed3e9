package testbed

import (
	"os/exec"
	"syscall"
)

// killWithParent makes the kernel kill the child when this process dies.
func killWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

//go:build unix

package bench

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time that this process took so far.
func cpuTime() time.Duration {
	var taken syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &taken); err != nil {
		return 0
	}
	return time.Duration(taken.Utime.Nano() + taken.Stime.Nano())
}

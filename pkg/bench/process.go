package bench

import (
	"fmt"
	"os"
	"strings"
)

// PeakMemory returns the most resident memory that a process, or "self", had so
// far, in bytes, and 0 where the system does not say. What wait4 says of a process
// that has ended is of no use: it is at least the memory of the process that
// started it, which may be a whole API server.
func PeakMemory(process string) int64 {
	status, err := os.ReadFile("/proc/" + process + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); n == 1 { // Other lines do not match.
			return kilobytes << 10
		}
	}
	return 0
}

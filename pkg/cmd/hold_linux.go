package cmd

import (
	"fmt"
	"os"
	"strings"
)

// machineID stands for the machine since it was started, and for the space that
// this process's numbers are from: a container on the same machine counts its own.
// It is empty where it cannot be told.
func machineID() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + space
}

// processStart returns when a process began, in ticks since the machine was
// started; empty where there is no such process.
func processStart(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name, in parentheses, may have spaces; what follows are numbers. The
	// start is field 22 of all, the name is field 2 (proc_pid_stat(5)).
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
	fields := strings.Fields(rest)
	const start = 22 - 3
	if len(fields) <= start || fields[0] == "Z" { // A zombie runs no more.
		return ""
	}
	return fields[start]
}

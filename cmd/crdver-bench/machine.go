package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// Machine is where the numbers come from: they mean nothing elsewhere.
type Machine struct {
	CPU        string  `json:"cpu"`
	CPUs       int     `json:"cpus"`
	MemoryGiB  float64 `json:"memoryGiB"`
	System     string  `json:"system"`
	Go         string  `json:"go"`
	Kubernetes string  `json:"kubernetes"`
	// Load is the load average of the last minute when the run began.
	Load string `json:"load"`
}

// thisMachine leaves empty what the system does not tell.
func thisMachine() Machine {
	m := Machine{
		CPU: procField("cpuinfo", "model name"), CPUs: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Kubernetes: testbed.KubernetesVersion,
	}
	if release := strings.TrimSpace(readProc("sys/kernel/osrelease")); release != "" {
		m.System += ", kernel " + release
	}
	var kilobytes float64
	if n, _ := fmt.Sscanf(procField("meminfo", "MemTotal"), "%f kB", &kilobytes); n == 1 { // Otherwise it is unknown.
		m.MemoryGiB = kilobytes / (1 << 20)
	}
	m.Load, _, _ = strings.Cut(readProc("loadavg"), " ")
	return m
}

// String is the line above a table.
func (m Machine) String() string {
	return fmt.Sprintf("%d CPUs (%s), %.0f GiB, %s, %s, Kubernetes %s", m.CPUs, m.CPU, m.MemoryGiB, m.System, m.Go, m.Kubernetes)
}

func readProc(name string) string {
	text, err := os.ReadFile("/proc/" + name)
	if err != nil {
		return ""
	}
	return string(text)
}

func procField(file, field string) string {
	for line := range strings.Lines(readProc(file)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

//go:build !linux

package cmd

// machineID is empty: whether the process of another run is gone cannot be told.
func machineID() string { return "" }

func processStart(int) string { return "" }

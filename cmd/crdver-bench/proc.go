package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/bench"
)

// clockTick is the unit of the times in /proc/PID/stat, the same on every Linux.
const clockTick = 10 * time.Millisecond

// cpuOf returns the CPU time that processes took so far.
func cpuOf(ids []int) (time.Duration, error) {
	total := time.Duration(0)
	for _, id := range ids {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(id) + "/stat")
		if err != nil {
			return 0, fmt.Errorf("reading the CPU time of a server (this needs Linux): %w", err)
		}
		// The name, in brackets, may hold anything; what follows may not.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		for _, field := range fields[11:13] { // utime and stime, 14 and 15 in proc(5).
			ticks, err := strconv.ParseInt(string(field), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("reading the CPU time of a server: %w", err)
			}
			total += time.Duration(ticks) * clockTick
		}
	}
	return total, nil
}

// waitIdle waits until processes have little to do, or until a time is over: a
// server never comes to rest altogether.
func waitIdle(ctx context.Context, ids []int, limit time.Duration) error {
	const look, enough = 300 * time.Millisecond, 40 * time.Millisecond
	before, err := cpuOf(ids)
	for deadline := time.Now().Add(limit); err == nil && time.Now().Before(deadline); {
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		after, err := cpuOf(ids)
		if err != nil || after-before <= enough {
			return err
		}
		before = after
	}
	return err
}

// usage is what a process took.
type usage struct {
	wall, cpu time.Duration
	peak      int64
}

// runProcess runs a command, whose standard output goes to w, and watches its
// memory.
func runProcess(ctx context.Context, w io.Writer, environment []string, words ...string) (usage, error) {
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Env = append(os.Environ(), environment...)
	var stderr bytes.Buffer
	command.Stdout, command.Stderr = w, &stderr
	begin := time.Now()
	if err := command.Start(); err != nil {
		return usage{}, fmt.Errorf("starting %s: %w", words[0], err)
	}
	done, peak := make(chan struct{}), make(chan int64)
	go func() { peak <- watchMemory(command.Process.Pid, done) }()
	err := command.Wait()
	wall := time.Since(begin)
	close(done)
	result := usage{wall: wall, peak: <-peak}
	if err != nil {
		return result, errors.Join(fmt.Errorf("%q: %w: %s", words, err, bytes.TrimSpace(stderr.Bytes())), context.Cause(ctx))
	}
	result.cpu = command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	return result, nil
}

// watchMemory returns the peak memory of a process that somebody else waits for.
func watchMemory(id int, done <-chan struct{}) int64 {
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	var peak int64
	for {
		select {
		case <-done:
			return peak
		case <-ticker.C:
			peak = max(peak, bench.PeakMemory(strconv.Itoa(id)))
		}
	}
}

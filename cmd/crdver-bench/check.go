package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/testbed"
)

// Budget is one budget, and what was measured.
type Budget struct {
	ID       string  `json:"id"`
	What     string  `json:"what"`
	Allowed  string  `json:"allowed"`
	Measured string  `json:"measured"`
	Value    float64 `json:"value"`
	OK       bool    `json:"ok"`
}

// CheckResults are all budgets.
type CheckResults struct {
	Machine Machine   `json:"machine"`
	Date    time.Time `json:"date"`
	Budgets []Budget  `json:"budgets"`
}

// failed returns an error that names the budgets that are exceeded.
func (r CheckResults) failed() error {
	var names []string
	for _, budget := range r.Budgets {
		if !budget.OK {
			names = append(names, budget.ID)
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("%d of %d budgets are exceeded: %s", len(names), len(r.Budgets), strings.Join(names, ", "))
	}
	return nil
}

// markdown prints a line for each budget.
func (r CheckResults) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, on %s. Load before the run: %s.\n\n", r.Date.Format("2006-01-02"), r.Machine, r.Machine.Load)
	b.WriteString("| what | budget | measured | |\n|---|---|---|---|\n")
	for _, budget := range r.Budgets {
		verdict := "kept"
		if !budget.OK {
			verdict = "**exceeded**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", budget.What, budget.Allowed, budget.Measured, verdict)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

// budgetCheck measures some budgets. The directory is its own.
type budgetCheck struct {
	name string
	run  func(ctx context.Context, o options, dir string) ([]Budget, error)
}

func budgetChecks() []budgetCheck {
	return []budgetCheck{
		{"binary", checkBinary},
		{"start", checkStart},
		{"crds", checkCRDs},
		{"migrate", checkMigrate},
		{"memory", checkMemory},
		{"rerun", checkRerun},
	}
}

// check measures what the budgets limit.
func check(ctx context.Context, o options) (CheckResults, error) {
	results := CheckResults{Machine: thisMachine(), Date: time.Now().UTC().Truncate(time.Second)}
	if o.plugin == "" {
		return results, errors.New("the budgets are those of the plugin: name it with -plugin")
	}
	for _, c := range budgetChecks() {
		if len(o.only) > 0 && !slices.Contains(o.only, c.name) {
			continue
		}
		budgets, err := inDirectory(ctx, o, c.run)
		if err != nil {
			return results, fmt.Errorf("checking %s: %w", c.name, err)
		}
		for _, budget := range budgets {
			_, _ = fmt.Fprintf(o.stderr, "%s: %s (allowed: %s), ok: %t\n", budget.ID, budget.Measured, budget.Allowed, budget.OK) // Nothing depends on it.
		}
		results.Budgets = append(results.Budgets, budgets...)
	}
	return results, nil
}

func inDirectory(ctx context.Context, o options, run func(ctx context.Context, o options, dir string) ([]Budget, error)) ([]Budget, error) {
	dir, err := os.MkdirTemp("", "crdver-bench-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // A leftover in the temporary directory is harmless.
	return run(ctx, o, dir)
}

// atMost is a budget that a value must not exceed.
func atMost(id, what string, value, most float64, allowed, measured string) Budget {
	return Budget{ID: id, What: what, Allowed: allowed, Measured: measured, Value: value, OK: value <= most}
}

// atLeast is a budget that a value must reach.
func atLeast(id, what string, value, least float64, allowed, measured string) Budget {
	return Budget{ID: id, What: what, Allowed: allowed, Measured: measured, Value: value, OK: value >= least}
}

// binaryMegabytes is the most that the stripped binary may have.
const binaryMegabytes = 60

func checkBinary(_ context.Context, o options, _ string) ([]Budget, error) {
	info, err := os.Stat(o.plugin)
	if err != nil {
		return nil, fmt.Errorf("looking at the plugin: %w", err)
	}
	size := float64(info.Size()) / 1e6
	return []Budget{atMost("binary", "binary, stripped", size, binaryMegabytes, "at most 60 MB", fmt.Sprintf("%.1f MB", size))}, nil
}

// startRuns is how often a start is measured: it takes a few hundredths of a
// second, of which the machine's other work is a large part.
const startRuns = 31

// startTolerance is how much of a difference is none.
const startTolerance = 1.05

func checkStart(ctx context.Context, o options, _ string) ([]Budget, error) {
	kubectl, err := findKubectl()
	if err != nil {
		return nil, err
	}
	var own, theirs []usage
	for range startRuns {
		for _, program := range []struct {
			words []string
			took  *[]usage
		}{
			{[]string{o.plugin, "version", "--client"}, &own},
			{[]string{kubectl, "version", "--client"}, &theirs},
		} {
			took, err := runProcess(ctx, io.Discard, nil, program.words...)
			if err != nil {
				return nil, err
			}
			*program.took = append(*program.took, took)
		}
	}
	mine, other := median(own, wallOf), median(theirs, wallOf)
	return []Budget{atMost("start", "start (`version --client`)", mine/other, startTolerance, "no slower than `kubectl version --client`",
		fmt.Sprintf("%.0f ms, kubectl %.0f ms", mine*1000, other*1000))}, nil
}

func wallOf(u usage) float64 { return u.wall.Seconds() }

func peakOf(u usage) float64 { return float64(u.peak) }

// findKubectl returns the kubectl of the control plane, or the one on PATH.
func findKubectl() (string, error) {
	if assets := os.Getenv(testbed.AssetsVariable); assets != "" {
		return filepath.Join(assets, "kubectl"), nil
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return "", fmt.Errorf("there is no kubectl to compare with: put one on PATH or set %s: %w", testbed.AssetsVariable, err)
	}
	return path, nil
}

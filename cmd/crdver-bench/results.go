package main

import (
	"slices"
	"time"

	"github.com/crdver/kubectl-crdver/pkg/bench"
)

// Results is what -o json prints.
type Results struct {
	Machine Machine   `json:"machine"`
	Date    time.Time `json:"date"`
	// Server says what served, and whether it had the CPUs for itself.
	Server string `json:"server"`
	// Objects is the number of objects of those that rewrite all of them.
	Objects     int     `json:"objects"`
	ObjectBytes int     `json:"objectBytes"`
	Rounds      int     `json:"rounds"`
	Tables      []Table `json:"tables"`
}

// Table are the results with one round trip.
type Table struct {
	RoundTripMilliseconds float64  `json:"roundTripMilliseconds"`
	Results               []Result `json:"results"`
}

// Result is what came of a contestant: the median of each number, and the runs.
type Result struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Ceiling marks the load generators.
	Ceiling bool `json:"ceiling,omitempty"`
	// Serial marks the serial migrators without a limit of their own.
	Serial bool  `json:"serial,omitempty"`
	Median Run   `json:"median"`
	Runs   []Run `json:"runs"`
}

// Run is one run of a contestant.
type Run struct {
	Objects          int64   `json:"objects"`
	ObjectsPerSecond float64 `json:"objectsPerSecond"`
	// Sent and Received are bytes per object, all connections and the list
	// included.
	Sent     float64 `json:"sentBytesPerObject"`
	Received float64 `json:"receivedBytesPerObject"`
	// ClientCPU and ServerCPU are milliseconds per object. The server's is without
	// what it takes while nobody asks it.
	ClientCPU float64 `json:"clientCPUMillisecondsPerObject"`
	ServerCPU float64 `json:"serverCPUMillisecondsPerObject"`
	PeakBytes int64   `json:"peakBytes"`
}

func newRun(outcome bench.Outcome, sent, received int64, serverCPUSeconds float64) Run {
	count := float64(max(1, outcome.Objects))
	return Run{
		Objects:          outcome.Objects,
		ObjectsPerSecond: count / outcome.Seconds,
		Sent:             float64(sent) / count,
		Received:         float64(received) / count,
		ClientCPU:        outcome.CPUSeconds * 1000 / count,
		ServerCPU:        serverCPUSeconds * 1000 / count,
		PeakBytes:        outcome.PeakBytes,
	}
}

// bytes returns the bytes per object on the wire.
func (r Run) bytes() float64 { return r.Sent + r.Received }

// add adds a run and computes the medians again.
func (r *Result) add(run Run) {
	r.Runs = append(r.Runs, run)
	r.Median = Run{
		Objects:          run.Objects,
		ObjectsPerSecond: median(r.Runs, func(r Run) float64 { return r.ObjectsPerSecond }),
		Sent:             median(r.Runs, func(r Run) float64 { return r.Sent }),
		Received:         median(r.Runs, func(r Run) float64 { return r.Received }),
		ClientCPU:        median(r.Runs, func(r Run) float64 { return r.ClientCPU }),
		ServerCPU:        median(r.Runs, func(r Run) float64 { return r.ServerCPU }),
		PeakBytes:        int64(median(r.Runs, func(r Run) float64 { return float64(r.PeakBytes) })),
	}
}

// median returns the middle of the numbers of some things, or the mean of the two
// in the middle.
func median[T any](things []T, number func(T) float64) float64 {
	if len(things) == 0 {
		return 0
	}
	numbers := make([]float64, 0, len(things))
	for _, thing := range things {
		numbers = append(numbers, number(thing))
	}
	slices.Sort(numbers)
	return (numbers[len(numbers)/2] + numbers[(len(numbers)-1)/2]) / 2
}

// find returns a result by its ID, or nil.
func (t Table) find(id string) *Result {
	if i := slices.IndexFunc(t.Results, func(r Result) bool { return r.ID == id }); i >= 0 {
		return &t.Results[i]
	}
	return nil
}

// fastest returns the one with the highest rate of those that are asked for, or
// nil.
func (t Table) fastest(asked func(Result) bool) *Result {
	var best *Result
	for i := range t.Results {
		r := &t.Results[i]
		if asked(*r) && len(r.Runs) > 0 && (best == nil || r.Median.ObjectsPerSecond > best.Median.ObjectsPerSecond) {
			best = r
		}
	}
	return best
}

// ceiling returns the load generator that got the most out of the server, or nil.
func (t Table) ceiling() *Result { return t.fastest(func(r Result) bool { return r.Ceiling }) }

// partOfCeiling returns which part the engine gets of what the best load generator
// gets, and the rate of that one, each the median of the rounds. Which is the best
// is told from the other rounds: the fastest of several in the same round is mostly
// the luckiest one, and would be a ceiling that nothing reaches, itself included.
// It is 0 without a load generator, or with one round only.
func (t Table) partOfCeiling() (part, rate float64) {
	own := t.find(idEngine)
	if own == nil {
		return 0, 0
	}
	var parts, rates []float64
	for round, run := range own.Runs {
		best := t.without(round).ceiling()
		if best == nil || best.Median.ObjectsPerSecond == 0 {
			return 0, 0
		}
		reached := t.find(best.ID).Runs[round].ObjectsPerSecond
		parts, rates = append(parts, run.ObjectsPerSecond/reached), append(rates, reached)
	}
	same := func(number float64) float64 { return number }
	return median(parts, same), median(rates, same)
}

// without returns the table of all rounds but one.
func (t Table) without(round int) Table {
	others := Table{RoundTripMilliseconds: t.RoundTripMilliseconds}
	for _, result := range t.Results {
		less := Result{ID: result.ID, Title: result.Title, Ceiling: result.Ceiling, Serial: result.Serial}
		for i, run := range result.Runs {
			if i != round {
				less.add(run)
			}
		}
		others.Results = append(others.Results, less)
	}
	return others
}

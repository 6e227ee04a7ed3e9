package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// scaleShare is which part of the objects the serial ways rewrite in a scale run: by
// then they have listed all, or hold one page after the other.
const scaleShare = 100

// ScaleResults is what came of a scale run.
type ScaleResults struct {
	Machine     Machine   `json:"machine"`
	Date        time.Time `json:"date"`
	Server      string    `json:"server"`
	ObjectBytes int       `json:"objectBytes"`
	// Sizes are the numbers of objects; each result has a run for each of them.
	Sizes   []int    `json:"sizes"`
	Results []Result `json:"results"`
}

// scaleContestants are those whose memory is compared.
func (o options) scaleContestants() []contestant {
	var all []contestant
	for _, c := range contestants() {
		if c.ceiling || c.request.QPS > 0 || c.ID == "get-put" || !o.takesPart(c) {
			continue
		}
		if c.serial {
			c.request.Namespace, c.request.Limit = everything, max(1, o.objects/scaleShare)
			c.Title += fmt.Sprintf(", the first %d", c.request.Limit)
		}
		all = append(all, c)
	}
	return all
}

// scale measures the clients with a tenth of the objects, and with all of them.
func scale(ctx context.Context, o options) (ScaleResults, error) {
	dir, err := os.MkdirTemp("", "crdver-bench-")
	if err != nil {
		return ScaleResults{}, fmt.Errorf("creating a directory: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // A leftover in the temporary directory is harmless.
	few := o.objects / 10
	f, err := prepareField(ctx, o, dir, []share{{shareMost, few}})
	if err != nil {
		return ScaleResults{}, err
	}
	defer f.bed.Stop()
	results := ScaleResults{
		Machine: thisMachine(), Date: time.Now().UTC().Truncate(time.Second), Server: f.bed.name,
		ObjectBytes: o.objectBytes, Sizes: []int{few, o.objects},
	}
	for _, c := range o.scaleContestants() {
		results.Results = append(results.Results, Result{ID: c.ID, Title: c.Title})
	}
	for _, size := range results.Sizes {
		if more := size - f.objects.total(everything); more > 0 {
			f.say("creating %d more objects", more)
			if err := f.objects.add(ctx, []share{{shareSome, more}}); err != nil {
				return results, err
			}
		}
		for i, c := range o.scaleContestants() {
			run, err := f.measure(ctx, c, 0)
			if err != nil {
				return results, err
			}
			results.Results[i].Runs = append(results.Results[i].Runs, run)
			f.say("%d objects, %s: %.0f objects/s, peak memory %s MB", size, c.ID, run.ObjectsPerSecond, megabytes(run.PeakBytes))
		}
	}
	return results, nil
}

// markdown prints the memory side by side.
func (r ScaleResults) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, on %s.\nServer: %s, on the same CPUs as the clients. Load before the run: %s.\nObjects of %d bytes; etcd was read after each run.\n\n",
		r.Date.Format("2006-01-02"), r.Machine, r.Server, r.Machine.Load, r.ObjectBytes)
	b.WriteString("| way |")
	for _, size := range r.Sizes {
		fmt.Fprintf(&b, " peak memory MB, %d objects |", size)
	}
	b.WriteString(" grows by |\n|---|--:|--:|--:|\n")
	for _, result := range r.Results {
		if len(result.Runs) < len(r.Sizes) {
			continue
		}
		few, many := result.Runs[0], result.Runs[1]
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", result.Title, megabytes(few.PeakBytes), megabytes(many.PeakBytes),
			ratio(float64(many.PeakBytes), float64(few.PeakBytes)))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

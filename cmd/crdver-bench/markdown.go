package main

import (
	"fmt"
	"io"
	"strings"
)

// markdown prints the results as they are in the README: the ratios first.
func (r Results) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, on %s.\nServer: %s, on the same CPUs as the clients, which therefore slow each other down. Load before the run: %s.\n",
		r.Date.Format("2006-01-02"), r.Machine, r.Server, r.Machine.Load)
	fmt.Fprintf(&b, "%d objects of %d bytes; medians of %d rounds in which all take turns; etcd was read after each run.\n", r.Objects, r.ObjectBytes, r.Rounds)
	for _, table := range r.Tables {
		table.markdown(&b)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

// markdown prints a table. Of the load generators, only the best is shown.
func (t Table) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\nRound trip %g ms", t.RoundTripMilliseconds)
	if part, _ := t.partOfCeiling(); part > 0 {
		fmt.Fprintf(b, "; crdver gets %.0f %% of what the best load generator gets, round by round", part*100)
	}
	b.WriteString(":\n\n")
	b.WriteString("| way | crdver is faster by | bytes, times crdver's | objects/s | sent B/object | received B/object | client CPU ms/object | server CPU ms/object | peak memory MB | objects |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	own, ceiling := t.find(idEngine), t.ceiling()
	for _, result := range t.Results {
		if result.Ceiling && result.ID != ceiling.ID {
			continue
		}
		m := result.Median
		faster, bytes := "", ""
		if own != nil {
			faster = ratio(own.Median.ObjectsPerSecond, m.ObjectsPerSecond)
			bytes = ratio(m.bytes(), own.Median.bytes())
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %.0f | %.0f | %.2f | %.2f | %s | %d |\n",
			result.Title, faster, bytes, rate(m.ObjectsPerSecond), m.Sent, m.Received, m.ClientCPU, m.ServerCPU, megabytes(m.PeakBytes), m.Objects)
	}
}

func ratio(a, b float64) string {
	if b == 0 {
		return ""
	}
	if a/b < 10 {
		return fmt.Sprintf("%.2f", a/b)
	}
	return fmt.Sprintf("%.0f", a/b)
}

func rate(perSecond float64) string {
	if perSecond < 100 {
		return fmt.Sprintf("%.1f", perSecond)
	}
	return fmt.Sprintf("%.0f", perSecond)
}

func megabytes(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", float64(bytes)/1e6)
}

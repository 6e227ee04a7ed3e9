package printers

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

// WriteRoundTrip writes for people what becomes of objects on round trips: a line
// for each ordered pair of versions, and below it the fields that are not the same
// then. What was accepted is shown in the format wide only.
func WriteRoundTrip(w io.Writer, report *v1alpha1.RoundTripReport, wide bool) error {
	var out strings.Builder
	for i, item := range report.Items {
		if i > 0 {
			out.WriteString("\n")
		}
		fmt.Fprintf(&out, "%s: conversion %s, stored at %s; %s\n", Escape(item.CRD), Escape(item.Strategy), Escape(item.StorageVersion), takenLine(item))
		for _, pair := range item.Pairs {
			if err := writePair(&out, item, pair, wide); err != nil {
				return err
			}
		}
		writeEdges(&out, item)
		for _, question := range item.Open {
			fmt.Fprintf(&out, "  open: %s\n", Escape(question))
		}
	}
	if len(report.Items) > 0 {
		fmt.Fprintf(&out, "\n%s\n", roundTripLine(report.Summary))
	}
	return written(io.WriteString(w, out.String()))
}

// roundTripLine returns the counts of a report in words.
func roundTripLine(s v1alpha1.RoundTripSummary) string {
	line := fmt.Sprintf("%s, %s: %d lost, %d changed, %d appeared", english.Plural(s.CRDs, "CRD"), taken(s.Objects, s.Generated), s.Lost, s.Changed, s.Appeared)
	if s.Failed > 0 {
		line += fmt.Sprintf(", %d failed", s.Failed)
	}
	if s.Open > 0 {
		line += ", " + english.Plural(s.Open, "open question")
	}
	if s.Accepted > 0 {
		line += fmt.Sprintf(" (%d accepted)", s.Accepted)
	}
	return line
}

func taken(objects, generated int64) string {
	if generated == 0 {
		return english.Plural(objects, "object")
	}
	if objects == 0 {
		return english.Plural(generated, "generated sample")
	}
	return fmt.Sprintf("%s and %s", english.Plural(objects, "object"), english.Plural(generated, "generated sample"))
}

func takenLine(item v1alpha1.RoundTrip) string {
	line := taken(item.Objects, item.Generated)
	if !item.Complete {
		line += fmt.Sprintf(" (of %d)", item.Total)
	}
	return line
}

func writePair(out *strings.Builder, item v1alpha1.RoundTrip, pair v1alpha1.RoundTripPair, wide bool) error {
	fmt.Fprintf(out, "  %s -> %s -> %s: %s\n", Escape(pair.From), Escape(pair.To), Escape(pair.From), pairVerdict(pair, item.Generated))
	for _, list := range []struct {
		title string
		found []v1alpha1.RoundTripDifference
	}{{"", pair.Differences}, {"    labels, annotations and other metadata:\n", pair.Metadata}} {
		table := differencesTable(list.found, wide)
		if len(table.Rows) > 0 {
			out.WriteString(list.title)
		}
		if err := table.Print(out, TableOptions{Wide: wide, Indent: "    "}); err != nil {
			return err
		}
	}
	if note := forGood(item, pair); note != "" {
		fmt.Fprintf(out, "    %s\n", note)
	}
	for _, failure := range pair.Failures {
		fmt.Fprintf(out, "    failed in %s (%s): %s: %s\n", taken(failure.Objects, failure.Generated), Escape(strings.Join(failure.Examples, ", ")),
			Escape(failure.Reason), Escape(failure.Message))
	}
	return nil
}

// pairVerdict never says that nothing is lost where that is not known.
func pairVerdict(pair v1alpha1.RoundTripPair, generated int64) string {
	counts := map[string]int{}
	for _, list := range [][]v1alpha1.RoundTripDifference{pair.Differences, pair.Metadata} {
		for _, d := range list {
			if d.Accepted {
				counts["accepted"]++
			} else {
				counts[d.Change]++
			}
		}
	}
	var parts []string
	for _, change := range []string{v1alpha1.ChangeLost, v1alpha1.ChangeChanged, v1alpha1.ChangeAppeared, "accepted"} {
		if counts[change] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[change], change))
		}
	}
	if len(pair.Failures) > 0 {
		parts = append(parts, "some objects failed")
	}
	switch {
	case !pair.Replayed && len(parts) == 0:
		return "not known"
	case !pair.Replayed:
		return strings.Join(parts, ", ") + ", and perhaps more"
	case len(parts) == 0 && pair.Objects == 0 && generated == 0:
		return "not known: no object made it"
	case len(parts) == 0:
		return "nothing lost"
	}
	return strings.Join(parts, ", ")
}

func differencesTable(found []v1alpha1.RoundTripDifference, wide bool) Table {
	table := Table{Columns: []Column{
		{Header: "PATH"}, {Header: "CHANGE"}, {Header: "STAGE"}, {Header: "VERSION"}, {Header: "OBJECTS"}, {Header: "EXAMPLES"},
	}}
	values := false
	for _, d := range found {
		values = values || d.Before != "" || d.After != ""
	}
	if values {
		table.Columns = append(table.Columns, Column{Header: "BEFORE"}, Column{Header: "AFTER"})
	}
	for _, d := range found {
		if d.Accepted && !wide {
			continue
		}
		change := d.Change
		if d.Accepted {
			change += " (accepted)"
		}
		row := []string{d.Path, change, string(d.Stage), d.Version, strconv.FormatInt(d.Objects, 10), ""}
		examples := d.Examples
		if d.Objects == 0 && d.Generated > 0 {
			row[4] = english.Plural(d.Generated, "sample")
			if !wide && len(examples) > 1 {
				examples = examples[:1] // Their names are long, and each says as much as the other.
			}
		}
		row[5] = strings.Join(examples, ", ")
		if values {
			row = append(row, d.Before, d.After)
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

// forGood says when a loss by pruning becomes final: facts 6 and 18.
func forGood(item v1alpha1.RoundTrip, pair v1alpha1.RoundTripPair) string {
	for _, d := range pair.Differences {
		switch {
		case d.Change != v1alpha1.ChangeLost || d.Stage != v1alpha1.StagePruning || d.Accepted:
		case d.Version == item.StorageVersion:
			return "any write of an object makes this final, a no-op patch and a storage migration, too; metadata.generation does not tell"
		default:
			return fmt.Sprintf("a client that reads an object at %s and writes it back makes this final", Escape(d.Version))
		}
	}
	return ""
}

func writeEdges(out *strings.Builder, item v1alpha1.RoundTrip) {
	if len(item.Edges) == 0 {
		return
	}
	var parts []string
	for _, edge := range item.Edges {
		word := "nothing lost"
		if edge.Lossy {
			word = "lossy"
		}
		parts = append(parts, fmt.Sprintf("%s %s", Escape(edge.Version), word))
	}
	fmt.Fprintf(out, "  between the storage version %s and: %s\n", Escape(item.StorageVersion), strings.Join(parts, ", "))
}

// RoundTripCases returns the pairs of versions as tests: one that loses nothing
// passes; each difference that counts fails one.
func RoundTripCases(report *v1alpha1.RoundTripReport, counts func(v1alpha1.RoundTripDifference) bool) []JUnitCase {
	var cases []JUnitCase
	for _, item := range report.Items {
		for _, pair := range item.Pairs {
			name := fmt.Sprintf("%s -> %s -> %s", pair.From, pair.To, pair.From)
			before := len(cases)
			for _, list := range [][]v1alpha1.RoundTripDifference{pair.Differences, pair.Metadata} {
				for _, d := range list {
					cases = append(cases, differenceCase(item.CRD, name, d, counts(d)))
				}
			}
			for _, f := range pair.Failures {
				cases = append(cases, JUnitCase{Suite: item.CRD, Name: name + " " + f.Reason, Failure: f.Message, Type: "error", Details: strings.Join(f.Examples, "\n")})
			}
			switch {
			case !pair.Replayed:
				cases = append(cases, JUnitCase{Suite: item.CRD, Name: name, Failure: "it could not be replayed", Type: "error", Details: strings.Join(item.Open, "\n")})
			case before == len(cases):
				cases = append(cases, JUnitCase{Suite: item.CRD, Name: name})
			}
		}
	}
	return cases
}

func differenceCase(crd, name string, d v1alpha1.RoundTripDifference, counts bool) JUnitCase {
	c := JUnitCase{Suite: crd, Name: name + " " + d.Path + " " + d.Change, Type: "error"}
	where := ""
	if d.Version != "" {
		where = " at " + d.Version
	}
	c.Details = fmt.Sprintf("%s %s by %s%s in %s: %s", d.Path, d.Change, d.Stage, where, taken(d.Objects, d.Generated), strings.Join(d.Examples, ", "))
	switch {
	case d.Accepted:
		c.Skipped = "accepted"
	case counts:
		c.Failure = fmt.Sprintf("%s %s by %s%s", d.Path, d.Change, d.Stage, where)
	}
	return c
}

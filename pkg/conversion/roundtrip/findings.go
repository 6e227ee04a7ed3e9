package roundtrip

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/conversion"
)

const (
	// maxFindings bounds what is held of a pair of versions, and maxExamples how
	// many objects are named for each.
	maxFindings = 200
	maxExamples = 3
	// maxValue bounds a value that is shown.
	maxValue = 200
)

type pairKey struct{ from, to string }

type findingKey struct {
	path, change string
	stage        v1alpha1.Stage
	version      string
}

type failureKey struct{ reason, message string }

// placed is an object or a sample, and its place among them.
type placed struct {
	name      string
	index     int64
	generated bool
}

// collected is what was found for a pair of versions.
type collected struct {
	objects     int64
	differences map[findingKey]*finding
	failures    map[failureKey]*finding
}

// finding is the objects that have one thing in common.
type finding struct {
	objects, generated int64
	examples           []placed
	before, after      any
	first              int64
}

// add counts an object and keeps the first few, in whatever order they come.
func (f *finding) add(at placed, before, after any) {
	if len(f.examples) == 0 || at.index < f.first && !at.generated {
		f.first, f.before, f.after = at.index, before, after
	}
	if at.generated {
		f.generated++
	} else {
		f.objects++
	}
	order := func(a, b placed) int {
		if a.generated != b.generated {
			if a.generated {
				return 1 // Real objects first.
			}
			return -1
		}
		return cmp.Compare(a.index, b.index)
	}
	i, _ := slices.BinarySearchFunc(f.examples, at, order)
	if i < maxExamples {
		f.examples = slices.Insert(f.examples, i, at)[:min(len(f.examples)+1, maxExamples)]
	}
}

// record notes the differences of an object that made a round trip.
func (r *run) record(t trip, at placed, found []blamed) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.found[pairKey{t.from.name, t.to.name}]
	if !at.generated {
		c.objects++
	}
	r.collect(c, at, found)
}

// recordExtra notes differences of an object that is counted elsewhere.
func (r *run) recordExtra(t trip, at placed, found []blamed) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if c := r.found[pairKey{t.from.name, t.to.name}]; c != nil {
		r.collect(c, at, found)
	}
}

func (r *run) collect(c *collected, at placed, found []blamed) {
	once := map[findingKey]bool{}
	for _, b := range found {
		key := findingKey{path: b.Path, change: b.Change, stage: b.stage, version: b.version}
		if c.differences[key] == nil && len(c.differences) >= maxFindings {
			key.path = conversion.OtherPaths
		}
		if once[key] {
			continue // The object counts once, whatever number of items differ.
		}
		once[key] = true
		if c.differences[key] == nil {
			c.differences[key] = &finding{}
		}
		if !r.options.ShowValues {
			b.Before, b.After = nil, nil // Not held on to, either.
		}
		c.differences[key].add(at, b.Before, b.After)
	}
}

// recordFailure notes why an object did not make a round trip.
func (r *run) recordFailure(t trip, at placed, reason, message string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	c := r.found[pairKey{t.from.name, t.to.name}]
	if c == nil {
		return
	}
	// The same for all objects but the name of each.
	message = strings.ReplaceAll(message, at.name, "NAME")
	if _, name, ok := strings.Cut(at.name, "/"); ok {
		message = strings.ReplaceAll(message, name, "NAME")
	}
	key := failureKey{reason, message}
	if c.failures[key] == nil && len(c.failures) >= maxFindings {
		key = failureKey{reason, conversion.OtherPaths}
	}
	if c.failures[key] == nil {
		c.failures[key] = &finding{}
	}
	c.failures[key].add(at, nil, nil)
}

// report puts together what was found.
func (r *run) report(report *v1alpha1.RoundTrip) {
	for _, t := range r.trips {
		c := r.found[pairKey{t.from.name, t.to.name}]
		pair := v1alpha1.RoundTripPair{From: t.from.name, To: t.to.name, Objects: c.objects, Replayed: r.unreachable.Load() == nil}
		for key, f := range c.differences {
			d := v1alpha1.RoundTripDifference{
				Path: key.path, Change: key.change, Stage: key.stage, Version: key.version,
				Objects: f.objects, Generated: f.generated, Examples: names(f.examples),
			}
			if r.options.ShowValues {
				d.Before, d.After = value(f.before), value(f.after)
			}
			if strings.HasPrefix(key.path, "metadata") {
				pair.Metadata = append(pair.Metadata, d)
			} else {
				pair.Differences = append(pair.Differences, d)
			}
		}
		for key, f := range c.failures {
			pair.Failures = append(pair.Failures, v1alpha1.RoundTripFailure{
				Reason: key.reason, Message: key.message, Objects: f.objects, Generated: f.generated, Examples: names(f.examples),
			})
		}
		slices.SortFunc(pair.Differences, byPath)
		slices.SortFunc(pair.Metadata, byPath)
		slices.SortFunc(pair.Failures, func(a, b v1alpha1.RoundTripFailure) int {
			return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
		})
		report.Pairs = append(report.Pairs, pair)
	}
	report.Edges = r.edges(report.Pairs)
	report.Open = slices.Sorted(maps.Keys(r.open))
}

func byPath(a, b v1alpha1.RoundTripDifference) int {
	return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Change, b.Change), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Version, b.Version))
}

// edges says which of the ways between the storage version and the others lose
// something; with two versions there is but one way.
func (r *run) edges(pairs []v1alpha1.RoundTripPair) []v1alpha1.RoundTripEdge {
	if len(r.options.CRD.Served()) < 3 {
		return nil
	}
	var edges []v1alpha1.RoundTripEdge
	for _, name := range r.options.CRD.Served() {
		known, lossy := false, false
		for _, pair := range pairs {
			if pair.From == name && pair.To == r.storage.name || pair.To == name && pair.From == r.storage.name {
				known = true
				lossy = lossy || losing(pair)
			}
		}
		if known {
			edges = append(edges, v1alpha1.RoundTripEdge{Version: name, Lossy: lossy})
		}
	}
	return edges
}

func losing(pair v1alpha1.RoundTripPair) bool {
	return slices.ContainsFunc(slices.Concat(pair.Differences, pair.Metadata), func(d v1alpha1.RoundTripDifference) bool {
		return d.Change != v1alpha1.ChangeAppeared
	})
}

func names(examples []placed) []string {
	all := make([]string, 0, len(examples))
	for _, e := range examples {
		all = append(all, e.name)
	}
	return all
}

// value shows a value as JSON, cut.
func value(v any) string {
	if v == nil {
		return ""
	}
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	if len(text) > maxValue {
		return strings.ToValidUTF8(string(text[:maxValue]), "") + "..."
	}
	return string(text)
}

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/cluster"
	"github.com/crdver/kubectl-crdver/pkg/conversion"
	"github.com/crdver/kubectl-crdver/pkg/conversion/review"
	"github.com/crdver/kubectl-crdver/pkg/english"
)

const (
	// maxExamples is how many objects are named with a difference.
	maxExamples = 3
	// maxPaths is how many paths are told of one pair of versions.
	maxPaths = 200
)

// trip is what the round trips of one pair of versions came to.
type trip struct {
	pair

	objects int64
	// made says that the objects are made up; unread is why not all could be read.
	made   bool
	unread string
	// found are differences of the conversion alone; left are fields that the
	// other version does not have, and dropped what is lost without them.
	found, left, dropped map[[2]string]*v1alpha1.FieldDifference
	refused              []string
	refusal              string
}

// roundTrips converts objects there and back, each pair of versions. The API
// server's own part, pruning, is told apart: it is not the webhook's doing.
func (e *examination) roundTrips(ctx context.Context) error {
	why := e.noRoundTrips
	if name := e.tally.first(refusing); name != "" && why == "" {
		why = fmt.Sprintf("the API server does not take the answers (%s)", name)
	}
	for _, p := range e.pairs() {
		if why != "" {
			e.semantics(checkRoundTrip, v1alpha1.CheckSkipped, fmt.Sprintf("%s: %s", p, why), nil)
			continue
		}
		t := &trip{pair: p, found: map[[2]string]*v1alpha1.FieldDifference{}}
		t.left, t.dropped = map[[2]string]*v1alpha1.FieldDifference{}, map[[2]string]*v1alpha1.FieldDifference{}
		visit := func(objects []map[string]any) error { return e.there(ctx, t, objects) }
		var err error
		if e.Source != nil {
			err = e.Source.Each(ctx, p.from, visit)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if t.made = t.objects == 0; t.made {
			err = visit([]map[string]any{e.made(p.from)})
		}
		if err != nil {
			t.unread = cluster.Explain(err).Message
		}
		e.report.Objects.RoundTrips += t.objects
		e.tellTrip(t)
	}
	return nil
}

func (e *examination) semantics(name string, result v1alpha1.CheckResult, message string, differences []v1alpha1.FieldDifference) {
	e.put(v1alpha1.WebhookCheck{Stage: v1alpha1.CheckStageSemantics, Name: name, Result: result, Message: message, Differences: differences})
}

// there converts some objects to the other version and back. If one of them
// cannot be converted, all are converted alone.
func (e *examination) there(ctx context.Context, t *trip, objects []map[string]any) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	converted, back, refusal := e.bothWays(ctx, t.pair, objects)
	if refusal != "" && len(objects) > 1 {
		for i := range objects {
			if err := e.there(ctx, t, objects[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	}
	t.objects += int64(len(objects))
	if refusal != "" {
		t.refused, t.refusal = append(t.refused, nameOf(objects[0])), cmp.Or(t.refusal, refusal)
		return nil
	}
	for i := range objects {
		e.compare(ctx, t, objects[i], converted[i], back[i])
	}
	return nil
}

// bothWays converts objects there and back, and does with the answers what the
// API server does.
func (e *examination) bothWays(ctx context.Context, p pair, objects []map[string]any) (converted, back []map[string]any, refusal string) {
	converted, refusal = e.convert(ctx, objects, p.to)
	if refusal != "" {
		return nil, nil, "to " + p.to + ": " + refusal
	}
	if back, refusal = e.convert(ctx, converted, p.from); refusal != "" {
		return nil, nil, "back to " + p.from + ": " + refusal
	}
	return converted, back, ""
}

func (e *examination) convert(ctx context.Context, objects []map[string]any, to string) (converted []map[string]any, refusal string) {
	wrong, converted := e.probe(ctx, objects, to)
	if wrong != "" {
		return nil, wrong
	}
	for i := range objects {
		if err := review.Keep(objects[i], converted[i], e.apiVersion(to)); err != nil {
			return nil, "the API server does not take it"
		}
	}
	return converted, ""
}

// compare notes what is not as it was, and what pruning would do.
func (e *examination) compare(ctx context.Context, t *trip, object, converted, back map[string]any) {
	name := nameOf(object)
	pure := conversion.Differences(object, back, e.samples.schemas[t.from])
	kept := pure
	if len(pure) > 0 {
		e.samples.schemas[t.from].Prune(back)
		kept = conversion.Differences(object, back, e.samples.schemas[t.from])
	}
	for _, d := range pure {
		// What appears and is not in the schema is dropped at once.
		appears := d.Change == v1alpha1.ChangeAppeared
		if !stash(d) && (!appears || slices.ContainsFunc(kept, same(d))) {
			note(t.found, d.Path, d.Change, name)
		}
	}
	pruned := runtime.DeepCopyJSON(converted)
	paths := e.samples.schemas[t.to].Prune(pruned)
	if len(paths) == 0 {
		return
	}
	for _, path := range paths {
		note(t.left, path, v1alpha1.ChangeLost, name)
	}
	again, refusal := e.convert(ctx, []map[string]any{pruned}, t.from)
	if refusal != "" {
		return
	}
	for _, d := range conversion.Differences(object, again[0], e.samples.schemas[t.from]) {
		if !slices.ContainsFunc(pure, same(d)) && !stash(d) {
			note(t.dropped, d.Path, d.Change, name)
		}
	}
}

// same returns what finds a difference in another comparison.
func same(d conversion.Difference) func(conversion.Difference) bool {
	return func(other conversion.Difference) bool { return other.At == d.At && other.Change == d.Change }
}

// stash reports whether a difference is an annotation that appeared: webhooks
// keep in them what another version cannot express.
func stash(d conversion.Difference) bool {
	return d.Change == v1alpha1.ChangeAppeared && strings.HasPrefix(d.Path, "metadata.annotations")
}

func note(into map[[2]string]*v1alpha1.FieldDifference, path, change, name string) {
	key := [2]string{path, change}
	if into[key] == nil {
		if len(into) >= maxPaths {
			return
		}
		into[key] = &v1alpha1.FieldDifference{Path: path, Change: change}
	}
	into[key].Objects++
	if len(into[key].Examples) < maxExamples {
		into[key].Examples = append(into[key].Examples, name)
	}
}

// tellTrip adds the checks of one pair of versions.
func (e *examination) tellTrip(t *trip) {
	what := fmt.Sprintf("%s to %s and back, %s", t.from, t.to, english.Plural(t.objects, "object"))
	if t.made {
		what += " made up from the schema"
	}
	switch found := sorted(t.found); {
	case len(t.refused) > 0:
		result := v1alpha1.CheckFailed
		if t.made {
			result = v1alpha1.CheckWarning // It may refuse them with good reason.
		}
		e.semantics(checkRoundTrip, result, fmt.Sprintf("%s: %d not converted, %s (%s)", what, len(t.refused), t.refusal, few(t.refused)), found)
	case slices.ContainsFunc(found, func(d v1alpha1.FieldDifference) bool { return d.Change != v1alpha1.ChangeAppeared }):
		e.semantics(checkRoundTrip, v1alpha1.CheckFailed, what+": "+pathsText(found), found)
	case len(found) > 0:
		e.semantics(checkRoundTrip, v1alpha1.CheckWarning, what+": "+pathsText(found), found)
	case t.unread != "":
		e.semantics(checkRoundTrip, v1alpha1.CheckWarning, what+": nothing is lost, but not all could be read: "+t.unread, nil)
	default:
		e.semantics(checkRoundTrip, v1alpha1.CheckOK, what+": nothing is lost", nil)
	}
	switch dropped, left := sorted(t.dropped), sorted(t.left); {
	case len(dropped) > 0:
		e.semantics(checkKnown, v1alpha1.CheckFailed,
			fmt.Sprintf("%s: the schema of %s lacks %s, so that pruning them: %s", what, t.to, pathsOf(left), pathsText(dropped)), dropped)
	case len(left) > 0:
		e.semantics(checkKnown, v1alpha1.CheckWarning,
			fmt.Sprintf("%s: the schema of %s lacks %s: pruning drops them, and nothing is lost by it", what, t.to, pathsOf(left)), left)
	default:
		e.semantics(checkKnown, v1alpha1.CheckOK, fmt.Sprintf("%s has every field that it gets from %s", t.to, t.from), nil)
	}
}

func sorted(found map[[2]string]*v1alpha1.FieldDifference) []v1alpha1.FieldDifference {
	var all []v1alpha1.FieldDifference
	for _, d := range found {
		all = append(all, *d)
	}
	slices.SortFunc(all, func(a, b v1alpha1.FieldDifference) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Change, b.Change))
	})
	return all
}

// pathsText tells differences: "lost spec.a in 3 objects (x, y, z)".
func pathsText(found []v1alpha1.FieldDifference) string {
	var texts []string
	for _, d := range found {
		texts = append(texts, fmt.Sprintf("%s %s in %s (%s)", d.Change, d.Path, english.Plural(d.Objects, "object"), strings.Join(d.Examples, ", ")))
	}
	return few(texts)
}

func pathsOf(found []v1alpha1.FieldDifference) string {
	var paths []string
	for _, d := range found {
		paths = append(paths, d.Path)
	}
	return few(paths)
}

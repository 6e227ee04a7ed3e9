package manifestuse

import (
	"context"
	"fmt"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/usage"
)

// maxExamples is how many places of a file a row names besides the first.
const maxExamples = 20

// Evidence are the files of a tree that name versions. It is a [usage.Collector].
type Evidence struct {
	targets []usage.Target
	found   [][]v1alpha1.UsageEvidence
	walked  Walked
}

// WantedOf returns what to look for.
func WantedOf(target usage.Target) Wanted {
	names := target.CRD.Spec.Names
	return Wanted{Group: target.Group(), Kind: names.Kind, ListKind: names.ListKind, Versions: target.Versions}
}

// Look reads a tree once, for all targets.
func Look(ctx context.Context, tree Tree, targets []usage.Target) (*Evidence, error) {
	e := &Evidence{targets: targets, found: make([][]v1alpha1.UsageEvidence, len(targets))}
	var err error
	e.walked, err = tree.Each(ctx, func(file string, content []byte) error {
		for i, target := range targets {
			e.found[i] = append(e.found[i], rows(file, Find(file, content, WantedOf(target)))...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Source implements [usage.Collector].
func (e *Evidence) Source() v1alpha1.UsageSource { return v1alpha1.UsageManifest }

// Collect implements [usage.Collector].
func (e *Evidence) Collect(_ context.Context, target usage.Target) ([]v1alpha1.UsageEvidence, []v1alpha1.Unlooked, error) {
	for i, known := range e.targets {
		if known.CRD.Name == target.CRD.Name {
			return e.found[i], e.unlooked(), nil
		}
	}
	return nil, nil, nil
}

func (e *Evidence) unlooked() []v1alpha1.Unlooked {
	var missing []v1alpha1.Unlooked
	for _, why := range e.walked.Unread {
		missing = append(missing, v1alpha1.Unlooked{Source: v1alpha1.UsageManifest, Why: why})
	}
	var left []string
	for _, one := range []struct {
		count int64
		what  string
	}{
		{e.walked.Folders, "folders named " + strings.Join(skipped(), ", ")},
		{e.walked.Links, "symbolic links"},
		{e.walked.Binary, "binary files"},
	} {
		if one.count > 0 {
			left = append(left, fmt.Sprintf("%d %s", one.count, one.what))
		}
	}
	if len(left) > 0 {
		missing = append(missing, v1alpha1.Unlooked{
			Source: v1alpha1.UsageManifest, Why: "left out: " + strings.Join(left, "; "), Optional: true,
			Command: "--filename FILE",
		})
	}
	return missing
}

// rows returns the evidence of one file: a row for each way in which it names
// each version.
func rows(file string, places []Place) []v1alpha1.UsageEvidence {
	var list []v1alpha1.UsageEvidence
	type key struct {
		version, note string
		what          What
	}
	index := map[key]int{}
	for _, place := range places {
		at := fmt.Sprintf("%s:%d:%d", file, place.Line, place.Column)
		k := key{place.Version, place.Note, place.What}
		i, known := index[k]
		if !known {
			index[k] = len(list)
			list = append(list, row(at, place))
			continue
		}
		list[i].Count++
		if len(list[i].Examples) <= maxExamples {
			list[i].Examples = append(list[i].Examples, at)
		}
	}
	return list
}

// row is the evidence of one place. A mention is text: nobody applies it as it is.
func row(at string, place Place) v1alpha1.UsageEvidence {
	e := v1alpha1.UsageEvidence{
		Version: place.Version, Who: at, WhoKind: "file", What: string(place.What), Count: 1, CountOf: "places",
		Source: v1alpha1.UsageManifest, Proves: v1alpha1.ProvesReference, Examples: []string{at}, Note: place.Note,
	}
	if place.What == Mentions {
		e.Proves = v1alpha1.ProvesCapability
	}
	return e
}

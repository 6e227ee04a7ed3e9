package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
	"github.com/crdver/kubectl-crdver/pkg/schema"
)

// Check holds live objects against the new schemas. It keeps counts, no object,
// and is used by one goroutine.
type Check struct {
	// Version is the version to read the objects at, through the CRD that is there.
	Version string

	// old is what they are valid against now, and what it does not say is not
	// news (ratcheting).
	old  *schema.Validator
	next []nextVersion

	evidence Evidence
}

// nextVersion is a version that objects are held against.
type nextVersion struct {
	name      string
	validator *schema.Validator
	// sameVersion says that objects are read at it: what its old schema refused
	// is not news.
	sameVersion bool
	stored      bool
}

// Evidence is what live objects say.
type Evidence struct {
	// Checked objects were read, of Total if that is known.
	Checked int64
	Total   *int64
	// Complete says that all were read; Error why not.
	Complete bool
	Error    string
	// InvalidObjects and PrunedObjects count objects, not paths.
	InvalidObjects, PrunedObjects int64
	// Invalid and Pruned count objects by version, and by what is wrong there.
	Invalid, Pruned map[string]map[string]int64
	// InvalidAt and PrunedAt count objects by version.
	InvalidAt, PrunedAt map[string]int64
	// CriticalObjects are those that even an unchanged rewrite is refused for.
	CriticalObjects int64
}

// NewCheck returns what live objects have to be held against, and nil where the
// schemas that matter do not change: then there is nothing to look at. Without a
// served version, objects cannot be read; without conversion None, only objects
// at the version that they are read at can be judged.
func NewCheck(old lifecycle.State, next crd.CRD) (*Check, error) {
	at := old.Endpoint()
	if at == "" {
		return nil, nil //nolint:nilnil // Nothing can be read: storage rules say so.
	}
	c := &Check{Version: at, evidence: Evidence{
		Invalid: map[string]map[string]int64{}, Pruned: map[string]map[string]int64{},
		InvalidAt: map[string]int64{}, PrunedAt: map[string]int64{},
	}}
	none := old.CRD.ConversionStrategy() == apiextensionsv1.NoneConverter && next.ConversionStrategy() == apiextensionsv1.NoneConverter
	storage := next.StorageVersion()
	names := []string{at}
	if none && storage != at {
		names = append(names, storage)
	}
	for _, name := range names {
		entry := next.Version(name)
		if entry == nil || name == at && sameSchema(old.CRD.Version(name), entry) && old.CRD.Spec.PreserveUnknownFields == next.Spec.PreserveUnknownFields {
			continue
		}
		validator, err := schema.NewValidator(next.CustomResourceDefinition, name)
		if err != nil {
			return nil, fmt.Errorf("preparing the check of objects at %s: %w", name, err)
		}
		c.next = append(c.next, nextVersion{name: name, validator: validator, sameVersion: name == at, stored: name == storage})
	}
	if len(c.next) == 0 {
		return nil, nil //nolint:nilnil // As above.
	}
	var err error
	if c.old, err = schema.NewValidator(old.CRD.CustomResourceDefinition, at); err != nil {
		return nil, fmt.Errorf("preparing the check of objects at %s: %w", at, err)
	}
	return c, nil
}

// Add holds one object against the new schemas. The object is changed.
func (c *Check) Add(ctx context.Context, object map[string]any) {
	c.evidence.Checked++
	invalid, pruned, critical := false, false, false
	var known map[string]bool
	for _, next := range c.next {
		candidate := runtime.DeepCopyJSON(object)
		if paths := next.validator.Decode(candidate); len(paths) > 0 {
			pruned = true
			c.evidence.PrunedAt[next.name]++
			for _, path := range paths {
				count(c.evidence.Pruned, next.name, path)
			}
		}
		violations := next.validator.Validate(ctx, candidate)
		if len(violations) == 0 {
			continue
		}
		if known == nil {
			known = c.known(ctx, object)
		}
		news := false
		for _, violation := range violations {
			if known[violation.String()] {
				continue
			}
			news = true
			count(c.evidence.Invalid, next.name, violation.String())
		}
		if news {
			invalid = true
			c.evidence.InvalidAt[next.name]++
		}
		critical = critical || news && len(next.validator.ValidateRewrite(ctx, candidate)) > 0
	}
	for _, counted := range []struct {
		is    bool
		total *int64
	}{{invalid, &c.evidence.InvalidObjects}, {pruned, &c.evidence.PrunedObjects}, {critical, &c.evidence.CriticalObjects}} {
		if counted.is {
			*counted.total++
		}
	}
}

// known returns what the old schema already says of an object.
func (c *Check) known(ctx context.Context, object map[string]any) map[string]bool {
	known := map[string]bool{}
	for _, violation := range c.old.Validate(ctx, runtime.DeepCopyJSON(object)) {
		known[violation.String()] = true
	}
	return known
}

// Result returns the evidence. total is nil if it is not known; err says why not
// all objects were read, and complete that they were.
func (c *Check) Result(total *int64, complete bool, err string) *Evidence {
	c.evidence.Total, c.evidence.Complete, c.evidence.Error = total, complete, err
	return &c.evidence
}

func count(counts map[string]map[string]int64, version, what string) {
	const maxPaths = 1000 // A schema that forbids everything must not fill the memory.
	if counts[version] == nil {
		counts[version] = map[string]int64{}
	}
	if _, known := counts[version][what]; known || len(counts[version]) < maxPaths {
		counts[version][what]++
	}
}

func (e *Evidence) document() *v1alpha1.ObjectsChecked {
	return &v1alpha1.ObjectsChecked{
		Checked: e.Checked, Total: e.Total, Invalid: e.InvalidObjects, Pruned: e.PrunedObjects, Complete: e.Complete, Error: e.Error,
	}
}

// worst returns what is wrong with how many objects, most first.
func worst(counts map[string]int64) []string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return int(counts[b] - counts[a])
		}
		return slices.Compare([]string{a}, []string{b})
	})
	const shown = 10
	var lines []string
	for i, name := range names {
		if i == shown {
			lines = append(lines, fmt.Sprintf("and %d more", len(names)-shown))
			break
		}
		lines = append(lines, fmt.Sprintf("%s (%d)", name, counts[name]))
	}
	return lines
}

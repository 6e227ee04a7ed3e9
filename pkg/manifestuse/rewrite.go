package manifestuse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/compat"
	"github.com/crdver/kubectl-crdver/pkg/conversion"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/schema"
)

// Rewriter puts another version into manifests of a CRD whose conversion strategy
// is None. There, an object of the one version is an object of the other with the
// same fields; what is checked is that the other version keeps them all, gives the
// same defaults, and refuses nothing that the first one takes.
type Rewriter struct {
	wanted Wanted
	to     string
	// from is nil if the CRD does not have the version any more.
	from, into *schema.Validator
	// same says that the schemas of both versions ask for the same.
	same bool
}

// Rewritten is what became of one file.
type Rewritten struct {
	// After is the new text; the same as before if nothing was rewritten.
	After []byte
	// Done is how many places were rewritten, Left are those that were not, and why
	// in their notes.
	Done int
	Left []Place
}

// NewRewriter returns what rewrites manifests from one version to another.
func NewRewriter(one crd.CRD, wanted Wanted, to string) (*Rewriter, error) {
	r := &Rewriter{wanted: wanted, to: to}
	var err error
	if r.into, err = schema.NewValidator(one.CustomResourceDefinition, to); err != nil {
		return nil, err
	}
	from := wanted.Versions[0]
	if one.Version(from) == nil {
		return r, nil
	}
	if r.from, err = schema.NewValidator(one.CustomResourceDefinition, from); err != nil {
		return nil, err
	}
	r.same = len(compat.Compare(r.from.Schema(), r.into.Schema())) == 0
	return r, nil
}

// Rewrite returns the text of a file with the other version where that is safe.
// Nothing but the names of versions changes.
func (r *Rewriter) Rewrite(ctx context.Context, file string, content []byte) (Rewritten, error) {
	places := Find(file, content, r.wanted)
	result := Rewritten{After: content}
	if len(places) == 0 {
		return result, nil
	}
	var after []byte
	at := 0
	for _, place := range places {
		if place.Note = r.refusal(ctx, place); place.Note != "" {
			result.Left = append(result.Left, place)
			continue
		}
		after = append(append(after, content[at:place.start]...), r.to...)
		at = place.end
		result.Done++
	}
	if result.Done == 0 {
		return result, nil
	}
	result.After = append(after, content[at:]...)
	return result, r.verify(file, places, result)
}

// verify reads the new text again: the places that were rewritten name the new
// version now, and those that were left the old one.
func (r *Rewriter) verify(file string, before []Place, result Rewritten) error {
	wanted := r.wanted
	wanted.Versions = []string{r.to, r.wanted.Versions[0]}
	for _, place := range Find(file, result.After, wanted) {
		i := slices.IndexFunc(before, func(b Place) bool { return b.Line == place.Line && b.What == place.What })
		if i < 0 {
			continue // It named the new version before.
		}
		before = slices.Delete(slices.Clone(before), i, i+1)
	}
	if len(before) > 0 {
		return fmt.Errorf("%s:%d: not rewritten: reading the result again did not find the place; edit it by hand", file, before[0].Line)
	}
	return nil
}

// refusal returns why a place is not rewritten, "" if it is.
func (r *Rewriter) refusal(ctx context.Context, place Place) string {
	switch {
	case place.What == Mentions:
		return strings.TrimSuffix("only a mention: "+place.Note, ": ")
	case place.What == Selects:
		return "it selects objects by their version: edit it together with them"
	case !place.literal:
		return "the line holds more than the apiVersion"
	case r.same:
		return ""
	}
	object, err := parse(place.object)
	if err == nil && object["kind"] != r.wanted.Kind {
		err = errors.New("it is a list")
	}
	if err != nil {
		return fmt.Sprintf("the schemas of %s and %s differ, and it cannot be checked: %v", place.Version, r.to, err)
	}
	return r.check(ctx, object)
}

// check returns what one object loses, or gains, at the other version.
func (r *Rewriter) check(ctx context.Context, object map[string]any) string {
	into := func() map[string]any {
		copied := runtime.DeepCopyJSON(object)
		copied["apiVersion"] = r.wanted.Group + "/" + r.to
		return copied
	}
	direct := into()
	dropped := r.into.Decode(direct)
	var known []schema.Violation
	if r.from != nil {
		old := runtime.DeepCopyJSON(object)
		lost := r.from.Decode(old)
		dropped = slices.DeleteFunc(dropped, func(path string) bool { return slices.Contains(lost, path) })
		known = r.from.Validate(ctx, old)
		old["apiVersion"] = direct["apiVersion"]
		r.into.Decode(old)
		if different := conversion.Differences(old, direct, r.into.Schema()); len(dropped) == 0 && len(different) > 0 {
			return fmt.Sprintf("%s would become something else at %s, as defaults do", different[0].Path, r.to)
		}
	}
	if len(dropped) > 0 {
		return fmt.Sprintf("%s does not have %s, which would be lost", r.to, strings.Join(dropped, ", "))
	}
	for _, violation := range r.into.Validate(ctx, direct) {
		if !slices.Contains(known, violation) {
			return fmt.Sprintf("%s would refuse it: %s", r.to, violation)
		}
	}
	return ""
}

// parse reads the text of a mapping.
func parse(text []byte) (map[string]any, error) {
	if len(text) == 0 {
		return nil, errors.New("where it begins and ends is not clear")
	}
	if bytes.Contains(text, []byte("{{")) {
		return nil, errors.New("it is a template")
	}
	json, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, errors.New("it is no valid YAML by itself")
	}
	object := map[string]any{}
	if err := utiljson.Unmarshal(json, &object); err != nil {
		return nil, errors.New("it is no mapping by itself")
	}
	return object, nil
}

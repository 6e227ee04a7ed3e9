package plan

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

// Narrowed reports whether an intent is about some of the objects only.
func Narrowed(intent v1alpha1.Intent) bool {
	return intent.Namespace != "" || intent.Selector != "" || intent.Shard != ""
}

func (b *builder) narrowed() bool { return Narrowed(b.intent) }

// Namespaces returns the namespaces that an intent names.
func Namespaces(intent v1alpha1.Intent) []string {
	if intent.Namespace == "" {
		return intent.NamespacesFirst
	}
	return append([]string{intent.Namespace}, intent.NamespacesFirst...)
}

// InShard returns what tells whether an object is in the part that an intent is
// about, or nil for an intent that is about all of them.
func InShard(intent v1alpha1.Intent) (func(namespace, name string) bool, error) {
	if intent.Shard == "" {
		return nil, nil // Nothing to tell, and nothing wrong.
	}
	shard, err := ParseShard(intent.Shard)
	if err != nil {
		return nil, err
	}
	return shard.Holds, nil
}

// checkSelection refuses a selection of objects that can only be a mistake: a
// canary that went over nothing would be taken for one that went well.
func (b *builder) checkSelection() error {
	if _, err := InShard(b.intent); err != nil {
		return err
	}
	if _, err := labels.Parse(b.intent.Selector); err != nil {
		return inputErrorf("invalid label selector %q: %v", b.intent.Selector, err)
	}
	if b.intent.Namespace != "" && b.state.CRD.Spec.Scope == apiextensionsv1.ClusterScoped {
		return inputErrorf("the objects of %s are in no namespace: --namespace does not fit", b.state.CRD.Name)
	}
	for _, name := range Namespaces(b.intent) {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return inputErrorf("%q cannot be the name of a namespace: %s", name, problems[0])
		}
	}
	switch missing := b.state.Observations.MissingNamespaces; len(missing) {
	case 0:
		return nil
	case 1:
		return inputErrorf("there is no namespace %s: nothing would be migrated in it; kubectl get namespaces lists those there are", missing[0])
	default:
		return inputErrorf("there are no namespaces %s: nothing would be migrated in them; kubectl get namespaces lists those there are", join(missing))
	}
}

// NoneSelected reports whether a plan selects some of the objects, and there are
// no such objects.
func NoneSelected(p v1alpha1.Plan) bool {
	return Narrowed(p.Intent) && len(p.Steps) == 0 && p.Summary.Objects != nil && *p.Summary.Objects == 0
}

// noneSelected reports whether it is known that the selection is empty.
func (b *builder) noneSelected() bool {
	n := b.state.Observations.Selected
	return b.narrowed() && n != nil && *n == 0
}

// selectionWarnings say what is not known of the selection, and that it is empty.
func (b *builder) selectionWarnings() {
	o := b.state.Observations
	if o.NamespacesError != "" {
		b.warn("whether there is such a namespace is not known: %s", o.NamespacesError)
	}
	if o.SelectedError != "" {
		b.warn("how many objects are selected is not known: %s", o.SelectedError)
	}
	if b.noneSelected() {
		b.warn("%s has no objects %s: nothing is rewritten", b.state.CRD.Name, Selection(b.intent))
	}
}

// Selection says which objects an intent is about, for people.
func Selection(intent v1alpha1.Intent) string {
	var words []string
	if intent.Namespace != "" {
		words = append(words, "in the namespace "+intent.Namespace)
	}
	if intent.Selector != "" {
		words = append(words, "with labels that match "+intent.Selector)
	}
	if intent.Shard != "" {
		words = append(words, "in the shard "+intent.Shard)
	}
	return strings.Join(words, " ")
}

// objects returns the number of objects that a step goes over, or nil where it is
// not known.
func (b *builder) objects() *int64 {
	o := b.state.Observations
	if b.narrowed() {
		return o.Selected
	}
	return o.Objects
}

// count adds the numbers of objects to the summary.
func (b *builder) count(summary *v1alpha1.Summary) {
	total := b.state.Observations.Objects
	switch {
	case len(b.plan.Steps) > 0 && b.narrowed() || b.noneSelected():
		summary.Objects, summary.Total = b.objects(), total
	case len(b.plan.Steps) > 0 && b.intent.Retry != nil:
		summary.Objects, summary.Total = &b.intent.Retry.Objects, total
	case slices.ContainsFunc(b.plan.Steps, func(s v1alpha1.Step) bool { return s.Objects != nil }):
		summary.Objects = total
	}
}

// whichObjects says which objects are rewritten, in which order.
func (b *builder) whichObjects() string {
	where := "all objects"
	if b.narrowed() {
		where = "the objects " + Selection(b.intent)
	}
	if len(b.intent.NamespacesFirst) > 0 {
		where += fmt.Sprintf(", first those in %s,", join(b.intent.NamespacesFirst))
	}
	return where
}

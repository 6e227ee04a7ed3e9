package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/lifecycle"
)

// annotate adds an annotation to the patch of a step.
func (b *builder) annotate(step *v1alpha1.Step, key, text string) {
	step.Patch.Body = append(step.Patch.Body, Annotate(key, text))
	step.Changes = append(step.Changes, v1alpha1.Change{
		Path: fmt.Sprintf("metadata.annotations[%s]", key), From: quote(b.after.Annotations[key]), To: quote(text),
	})
	if b.after.Annotations == nil {
		b.after.Annotations = map[string]string{}
	}
	b.after.Annotations[key] = text
}

// unmark removes an annotation in the patch of a step, if it is there.
func (b *builder) unmark(step *v1alpha1.Step, key string) {
	old, found := b.after.Annotations[key]
	if !found {
		return
	}
	step.Patch.Body = append(step.Patch.Body, unannotate(key))
	step.Changes = append(step.Changes, v1alpha1.Change{Path: fmt.Sprintf("metadata.annotations[%s]", key), From: fmt.Sprintf("%q", old)})
	delete(b.after.Annotations, key)
}

// rescued reports whether an annotation of a rescue names the version.
func (b *builder) rescued(version string) bool {
	_, marked := b.after.Annotations[lifecycle.RehearsalAnnotation(version)]
	return marked || slices.Contains(strings.Split(b.after.Annotations[lifecycle.RescuedAnnotation], ","), version)
}

// unrescue takes a version out of what a rescue noted, in the patch of the step that
// was added last: it is removed, or is a version again like any other, which no
// rescue is to remove.
func (b *builder) unrescue(version string) {
	if !b.rescued(version) {
		return
	}
	step := &b.plan.Steps[len(b.plan.Steps)-1]
	names := slices.DeleteFunc(strings.Split(b.after.Annotations[lifecycle.RescuedAnnotation], ","), func(name string) bool {
		return name == version || b.after.Version(name) == nil
	})
	if rest := strings.Join(names, ","); rest != "" {
		b.annotate(step, lifecycle.RescuedAnnotation, rest)
	} else {
		b.unmark(step, lifecycle.RescuedAnnotation)
	}
	b.unmark(step, lifecycle.RehearsalAnnotation(version))
}

// restoreRescued makes a version that a rescue added one like any other, with the
// step that serves it or with one of its own.
func (b *builder) restoreRescued(version string) {
	if slices.Contains(lifecycle.RescueNames(b.state.CRD), version) && lifecycle.KeepsEveryField(b.state.CRD, version) {
		b.warn("%s has the schema that rescue gave it: it keeps every field, and validates none", version)
	}
	if !b.rescued(version) { // Serving it did.
		return
	}
	b.clearStep(version, fmt.Sprintf("keep %s, which rescue added", version), "otherwise the next rescue would remove it")
	b.unrescue(version)
}

// leaveAlone drops versions from the annotation that somebody made their own, who
// serves them other than for a rehearsal, say: clients may use them, and to remove
// them is what retire is for, with its gates.
func (b *builder) leaveAlone() {
	for _, version := range lifecycle.RescueNames(b.state.CRD) {
		if slices.Contains(lifecycle.Rescued(b.state.CRD), version) {
			continue
		}
		b.warn("%s was added by a rescue, and somebody serves it, stores at it or changed its schema since: it is left alone, as a version like any other", version)
		b.clearStep(version, fmt.Sprintf("keep %s, which an earlier rescue added", version), "it is in use; kubectl crdver retire removes such a version, with its gates")
		b.unrescue(version)
	}
}

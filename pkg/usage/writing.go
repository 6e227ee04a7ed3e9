package usage

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
)

const (
	// maxWriters bounds how many managers are told apart: some write under a
	// name of its own for each run.
	maxWriters = 1000
	// clientSideApply is the manager of kubectl apply without --server-side.
	clientSideApply = "kubectl-client-side-apply"
)

// writing is who wrote the objects of a CRD, of which it keeps nothing but counts,
// times and a few names.
type writing struct {
	target  Target
	objects int64
	// unmanaged is the number of objects without any managedFields.
	unmanaged int64
	writers   map[managerKey]*writer
	// others are the managers beyond maxWriters, by version.
	others map[string]*trace
	// applied is by the version that the annotation of client-side apply names.
	applied map[string]*trace
}

// writer is what one manager wrote, by version.
type writer struct {
	// current is where its newest entry of an object is at that version, left
	// where it has a newer one of the same object at another version.
	current, left map[string]*trace
	// span is the time of its writes, of any version of the group.
	span map[string]span
}

// span is from when to when.
type span struct{ first, last time.Time }

// trace counts objects.
type trace struct {
	count    int64
	last     *metav1.Time
	examples []string
}

func newWriting(target Target) *writing {
	return &writing{target: target, writers: map[managerKey]*writer{}, others: map[string]*trace{}, applied: map[string]*trace{}}
}

// mark counts an object under a version.
func mark(traces map[string]*trace, version string, object *metav1.PartialObjectMetadata, at *metav1.Time) {
	one := traces[version]
	if one == nil {
		one = &trace{}
		traces[version] = one
	}
	one.count++
	if !at.IsZero() && (one.last == nil || one.last.Before(at)) {
		one.last = at.DeepCopy() // The page is not kept.
	}
	if len(one.examples) < maxExamples {
		one.examples = append(one.examples, display(object))
	}
}

// add counts one object.
func (w *writing) add(object *metav1.PartialObjectMetadata) {
	w.objects++
	if len(object.ManagedFields) == 0 {
		w.unmanaged++
	}
	entries := w.entries(object.ManagedFields)
	for _, e := range entries {
		one := w.writer(e.key)
		if one == nil {
			if slices.Contains(w.target.Versions, e.version) {
				mark(w.others, e.version, object, e.time)
			}
			continue
		}
		one.wrote(e.version, e.time)
		if !slices.Contains(w.target.Versions, e.version) {
			continue
		}
		if newest(entries, e) {
			mark(one.current, e.version, object, e.time)
		} else {
			mark(one.left, e.version, object, e.time)
		}
	}
	w.annotation(object)
}

// entry is what matters of an entry of managedFields.
type entry struct {
	key     managerKey
	version string
	time    *metav1.Time
}

// entries returns the entries of the group.
func (w *writing) entries(managed []metav1.ManagedFieldsEntry) []entry {
	var entries []entry
	for _, m := range managed {
		version, err := schema.ParseGroupVersion(m.APIVersion)
		if err != nil || version.Group != w.target.Group() {
			continue
		}
		key := managerKey{manager: m.Manager, operation: m.Operation, subresource: m.Subresource}
		entries = append(entries, entry{key: key, version: version.Version, time: m.Time})
	}
	return entries
}

// newest tells whether no entry of the same manager at another version is newer.
// Times are whole seconds: of two that tie, either may have been the last.
func newest(entries []entry, e entry) bool {
	return !slices.ContainsFunc(entries, func(other entry) bool {
		return other.key == e.key && other.version != e.version && timeOf(other.time).After(timeOf(e.time))
	})
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// writer returns the counts of a manager, nil if there are too many.
func (w *writing) writer(key managerKey) *writer {
	one := w.writers[key]
	if one == nil && len(w.writers) < maxWriters {
		one = &writer{current: map[string]*trace{}, left: map[string]*trace{}, span: map[string]span{}}
		w.writers[key] = one
	}
	return one
}

func (w *writer) wrote(version string, at *metav1.Time) {
	if at.IsZero() {
		return
	}
	known, was := w.span[version]
	if !was || at.Time.Before(known.first) {
		known.first = at.Time
	}
	if !was || at.After(known.last) {
		known.last = at.Time
	}
	w.span[version] = known
}

// annotation reads the annotation of client-side apply, of which only the
// apiVersion matters. Its time is that of the manager that left it.
func (w *writing) annotation(object *metav1.PartialObjectMetadata) {
	text := object.Annotations[corev1.LastAppliedConfigAnnotation]
	if !strings.Contains(text, w.target.Group()) {
		return
	}
	var applied struct {
		APIVersion string `json:"apiVersion"`
	}
	if json.Unmarshal([]byte(text), &applied) != nil {
		return // It is anybody's to write.
	}
	version, named := w.target.Has(applied.APIVersion)
	if !named {
		return
	}
	var at *metav1.Time
	for _, m := range object.ManagedFields {
		if m.Manager == clientSideApply && m.Subresource == "" && m.Operation == metav1.ManagedFieldsOperationUpdate && timeOf(m.Time).After(timeOf(at)) {
			at = m.Time
		}
	}
	mark(w.applied, version, object, at)
}

// movedOn tells where a manager, taken as a whole, has gone from a version.
//
// A manager that was upgraded writes each object at its new version when there is
// something to change; until then the entry of the old version stays, and accuses
// nobody. So a manager has moved on if all that it wrote at other versions is newer
// than all that it wrote at this one. If the two overlap, it is not one client that
// moved, but two with the same name, or one that uses both versions. And where a
// name is commonly shared, as that of kubectl, the two may be different clients even
// if they do not overlap: then only the same object tells (see [writing.add]).
func (w *writer) movedOn(key managerKey, version string) (to string, moved bool) {
	here, wrote := w.span[version]
	if !wrote || shared(key.manager) {
		return "", false
	}
	var newest time.Time
	for other, there := range w.span {
		if other == version {
			continue
		}
		if !there.first.After(here.last) {
			return "", false
		}
		if there.last.After(newest) {
			to, newest = other, there.last
		}
	}
	return to, to != ""
}

// shared tells whether a manager's name is likely that of several clients: the
// ones that people run, GitOps tools, which apply what others wrote, and names
// that a library or a template gives to any program.
func shared(manager string) bool {
	name := strings.ToLower(manager)
	for _, prefix := range []string{
		"kubectl", "helm", "argocd", "flux", "kustomize-controller", "terraform", "hashicorp", "pulumi", "ansible",
		"curl", "wget", "go-http-client", "python", "openapi-generator", "kubernetes", "node", "fabric8", "okhttp", "java",
		"mozilla", "k9s", "lens", "headlamp", "rancher", "before-first-apply",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{"", "manager", "main", "controller", "controller-manager", "operator", "app", "server", "unknown"}, name)
}

// evidence returns what was counted.
func (w *writing) evidence() []v1alpha1.UsageEvidence {
	var found []v1alpha1.UsageEvidence
	keys := slices.SortedFunc(maps.Keys(w.writers), func(a, b managerKey) int {
		return cmp.Or(cmp.Compare(a.manager, b.manager), cmp.Compare(a.operation, b.operation), cmp.Compare(a.subresource, b.subresource))
	})
	for _, key := range keys {
		for _, version := range w.target.Versions {
			found = append(found, w.writers[key].evidence(key, version)...)
		}
	}
	for _, version := range w.target.Versions {
		if one := w.others[version]; one != nil {
			found = append(found, one.evidence(v1alpha1.UsageEvidence{
				Version: version, Who: "more managers", WhoKind: "manager", What: "write", Source: v1alpha1.UsageManagedFields, Proves: v1alpha1.ProvesUse,
				Note: fmt.Sprintf("beyond the first %d", maxWriters),
			}))
		}
		if one := w.applied[version]; one != nil {
			found = append(found, one.evidence(v1alpha1.UsageEvidence{
				Version: version, Who: "client-side apply", WhoKind: "client", What: "apply", Source: v1alpha1.UsageLastApplied, Proves: v1alpha1.ProvesPastUse,
				Note: "what was applied last names it, and so do those files unless they were changed since",
			}))
		}
	}
	return found
}

func (w *writer) evidence(key managerKey, version string) []v1alpha1.UsageEvidence {
	row := v1alpha1.UsageEvidence{
		Version: version, Who: key.manager, WhoKind: "manager", What: "write", Subresource: key.subresource, Source: v1alpha1.UsageManagedFields,
		Proves: v1alpha1.ProvesUse,
	}
	if key.operation == metav1.ManagedFieldsOperationApply {
		row.What = "apply"
	}
	stale := row
	stale.Proves, stale.Stale = v1alpha1.ProvesPastUse, true
	current, left := w.current[version], w.left[version]
	if to, moved := w.movedOn(key, version); moved {
		stale.Note = fmt.Sprintf("has moved on to %s, which it wrote last at %s", to, w.span[to].last.UTC().Format(time.RFC3339))
		left, current = left.plus(current), nil
	} else {
		stale.Note = "has written the same objects at another version since"
	}
	var found []v1alpha1.UsageEvidence
	if current != nil {
		if current.last == nil {
			row.Proves, row.Note = v1alpha1.ProvesPastUse, "the entries have no time"
		}
		found = append(found, current.evidence(row))
	}
	if left != nil {
		found = append(found, left.evidence(stale))
	}
	return found
}

// plus adds the counts of another trace; both may be nil.
func (t *trace) plus(other *trace) *trace {
	if t == nil || other == nil {
		return cmp.Or(t, other)
	}
	sum := &trace{count: t.count + other.count, last: t.last, examples: append(slices.Clone(other.examples), t.examples...)}
	if timeOf(other.last).After(timeOf(t.last)) {
		sum.last = other.last
	}
	sum.examples = sum.examples[:min(len(sum.examples), maxExamples)]
	return sum
}

// evidence fills the counts into a row.
func (t *trace) evidence(row v1alpha1.UsageEvidence) v1alpha1.UsageEvidence {
	row.Count, row.CountOf, row.LastSeen, row.Examples = t.count, "objects", Seen(t.last), t.examples
	return row
}

// unlooked says what objects do not tell: managedFields may have been cleared, by
// a client or by an older server while the conversion webhook was down (case 81).
func (w *writing) unlooked() []v1alpha1.Unlooked {
	if w.unmanaged == 0 {
		return nil
	}
	return []v1alpha1.Unlooked{{
		Source:  v1alpha1.UsageManagedFields,
		Why:     fmt.Sprintf("%d of %d objects have no managedFields, so that they do not tell who wrote them", w.unmanaged, w.objects),
		Command: "--audit-log FILE",
	}}
}

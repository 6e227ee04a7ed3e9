package managedfields_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/crdver/kubectl-crdver/pkg/managedfields"
)

const (
	from = "example.com/v1beta1"
	to   = "example.com/v1"
)

// entry builds an entry; second is its time, and none if it is 0.
func entry(manager string, operation metav1.ManagedFieldsOperationType, apiVersion string, second int, fields string) metav1.ManagedFieldsEntry {
	e := metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, APIVersion: apiVersion, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
	if second > 0 {
		e.Time = &metav1.Time{Time: time.Date(2026, 11, 30, 12, 0, second, 0, time.UTC)}
	}
	return e
}

func subresource(name string, e metav1.ManagedFieldsEntry) metav1.ManagedFieldsEntry {
	e.Subresource = name
	return e
}

// withoutLegacy knows every path without a field named legacy.
func withoutLegacy(path fieldpath.Path) bool {
	for _, element := range path {
		if element.FieldName != nil && *element.FieldName == "legacy" {
			return false
		}
	}
	return true
}

type entries = []metav1.ManagedFieldsEntry

func TestMove(t *testing.T) {
	t.Parallel()
	const (
		apply  = metav1.ManagedFieldsOperationApply
		update = metav1.ManagedFieldsOperationUpdate
	)
	a, b, ab := `{"f:spec":{"f:a":{}}}`, `{"f:spec":{"f:b":{}}}`, `{"f:spec":{"f:a":{},"f:b":{}}}`
	for name, test := range map[string]struct {
		entries, want entries
		unchanged     bool
		dropped       []managedfields.Dropped
	}{
		"no entries": {unchanged: true},
		"none of the version": {
			entries:   entries{entry("a", apply, to, 1, a), entry("b", update, "example.com/v1alpha1", 1, a)},
			want:      entries{entry("a", apply, to, 1, a), entry("b", update, "example.com/v1alpha1", 1, a)},
			unchanged: true,
		},
		"moved in place, others untouched": {
			entries: entries{entry("a", apply, to, 1, a), entry("b", update, from, 2, b), entry("c", update, "other.example.com/v1beta1", 3, a)},
			want:    entries{entry("a", apply, to, 1, a), entry("b", update, to, 2, b), entry("c", update, "other.example.com/v1beta1", 3, a)},
		},
		"merged with a later one behind it": {
			entries: entries{entry("a", update, from, 1, a), entry("b", update, to, 1, a), entry("a", update, to, 5, b)},
			want:    entries{entry("b", update, to, 1, a), entry("a", update, to, 5, ab)},
		},
		"merged with an earlier one before it": {
			entries: entries{entry("a", update, to, 1, a), entry("a", update, from, 5, b)},
			want:    entries{entry("a", update, to, 5, ab)},
		},
		"a time is later than none": {
			entries: entries{entry("a", update, to, 0, a), entry("a", update, from, 5, b), entry("b", update, to, 5, a), entry("b", update, from, 0, b)},
			want:    entries{entry("a", update, to, 5, ab), entry("b", update, to, 5, ab)},
		},
		"not merged: another operation, subresource, manager": {
			entries: entries{entry("a", update, from, 1, a), entry("a", apply, to, 1, b), subresource("status", entry("a", update, to, 1, b)), entry("b", update, to, 1, b)},
			want:    entries{entry("a", update, to, 1, a), entry("a", apply, to, 1, b), subresource("status", entry("a", update, to, 1, b)), entry("b", update, to, 1, b)},
		},
		"merged with the same subresource": {
			entries: entries{subresource("status", entry("a", update, from, 1, a)), subresource("status", entry("a", update, to, 1, b))},
			want:    entries{subresource("status", entry("a", update, to, 1, ab))},
		},
		"two of the version become one": {
			entries: entries{entry("a", update, from, 1, a), entry("a", update, from, 2, b)},
			want:    entries{entry("a", update, to, 2, ab)},
		},
		"unknown paths are dropped": {
			entries: entries{entry("a", apply, from, 1, `{"f:spec":{"f:a":{},"f:legacy":{".":{},"f:x":{}},"f:ports":{"k:{\"name\":\"secret\"}":{".":{},"f:legacy":{},"f:name":{}},"k:{\"name\":\"other\"}":{"f:legacy":{}}}}}`)},
			want:    entries{entry("a", apply, to, 1, `{"f:spec":{"f:a":{},"f:ports":{"k:{\"name\":\"secret\"}":{".":{},"f:name":{}}}}}`)},
			dropped: []managedfields.Dropped{{
				Manager: "a", Operation: apply, APIVersion: from, Paths: []string{"spec.legacy", "spec.legacy.x", "spec.ports[*].legacy"},
			}},
		},
		"an entry without a path left goes": {
			entries: entries{entry("a", apply, from, 1, `{"f:spec":{"f:legacy":{}}}`), entry("b", apply, from, 1, a)},
			want:    entries{entry("b", apply, to, 1, a)},
			dropped: []managedfields.Dropped{{Manager: "a", Operation: apply, APIVersion: from, Paths: []string{"spec.legacy"}}},
		},
		"an entry without a path left does not go into another": {
			entries: entries{entry("a", update, to, 1, b), entry("a", update, from, 7, `{"f:spec":{"f:legacy":{}}}`)},
			want:    entries{entry("a", update, to, 1, b)},
			dropped: []managedfields.Dropped{{Manager: "a", Operation: update, APIVersion: from, Paths: []string{"spec.legacy"}}},
		},
		"never empty": {
			entries: entries{entry("a", apply, from, 1, `{"f:spec":{"f:legacy":{}}}`), entry("b", apply, from, 2, `{"f:spec":{"f:legacy":{}}}`)},
			want:    entries{entry("a", apply, to, 1, `{"f:metadata":{"f:name":{}}}`)},
			dropped: []managedfields.Dropped{
				{Manager: "a", Operation: apply, APIVersion: from, Paths: []string{"spec.legacy"}},
				{Manager: "b", Operation: apply, APIVersion: from, Paths: []string{"spec.legacy"}},
			},
		},
		"never only entries that the server drops": {
			entries: entries{entry("a", apply, to, 1, `{}`), {Manager: "b", Operation: apply, APIVersion: from}},
			want:    entries{entry("a", apply, to, 1, `{}`), entry("b", apply, to, 0, `{"f:metadata":{"f:name":{}}}`)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := copyOf(test.entries)
			got, changed, dropped, err := managedfields.Move(test.entries, from, to, withoutLegacy)
			if err != nil {
				t.Fatal(err)
			}
			if changed == test.unchanged {
				t.Errorf("changed is %t", changed)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.dropped, dropped); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.entries); diff != "" {
				t.Errorf("the caller's entries were changed (-before +after):\n%s", diff)
			}
			if managedfields.Names(got, from) {
				t.Errorf("an entry still names %s", from)
			}
		})
	}
}

func TestMoveAll(t *testing.T) {
	t.Parallel()
	const update = metav1.ManagedFieldsOperationUpdate
	got, changed, _, err := managedfields.MoveAll(entries{
		entry("a", update, "example.com/v1alpha1", 1, `{"f:spec":{"f:a":{}}}`),
		entry("a", update, from, 2, `{"f:spec":{"f:b":{}}}`),
		entry("a", update, to, 3, `{"f:spec":{"f:c":{}}}`),
	}, func(string) bool { return true }, to, withoutLegacy)
	if err != nil || !changed {
		t.Fatal(changed, err)
	}
	want := entries{entry("a", update, to, 3, `{"f:spec":{"f:a":{},"f:b":{},"f:c":{}}}`)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestMoveRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	broken := entry("a", metav1.ManagedFieldsOperationApply, from, 1, `{"f:spec":[]}`)
	future := entry("a", metav1.ManagedFieldsOperationApply, from, 1, `{}`)
	future.FieldsType = "FieldsV2"
	target := entry("a", metav1.ManagedFieldsOperationApply, to, 1, `nonsense`)
	good := entry("a", metav1.ManagedFieldsOperationApply, from, 1, `{"f:spec":{}}`)
	for name, e := range map[string]entries{"broken": {broken}, "future": {future}, "target": {target, good}} {
		if _, _, _, err := managedfields.Move(e, from, to, withoutLegacy); err == nil || !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("%s: got %v, want an error that names the manager", name, err)
		}
	}
}

func TestPatch(t *testing.T) {
	t.Parallel()
	meta := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "object", Namespace: "default", ResourceVersion: "42",
		ManagedFields: entries{
			entry("a", metav1.ManagedFieldsOperationApply, from, 1, `{"f:spec":{"f:a":{}}}`),
			subresource("status", entry("b", metav1.ManagedFieldsOperationUpdate, to, 0, `{"f:status":{}}`)),
		},
	}}
	body, needed, err := managedfields.Patch(meta, from, to, withoutLegacy)
	if err != nil || !needed {
		t.Fatal(needed, err)
	}
	const want = `{"metadata":{"resourceVersion":"42","managedFields":[` +
		`{"manager":"a","operation":"Apply","apiVersion":"example.com/v1","time":"2026-11-30T12:00:01Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:a":{}}}},` +
		`{"manager":"b","operation":"Update","apiVersion":"example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:status":{}},"subresource":"status"}]}}`
	if string(body) != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
	if body, needed, err := managedfields.Patch(meta, "example.com/v2", to, withoutLegacy); body != nil || needed || err != nil {
		t.Errorf("nothing to move: got %s, %t, %v", body, needed, err)
	}
	meta.ResourceVersion = ""
	if _, _, err := managedfields.Patch(meta, from, to, withoutLegacy); err == nil || !strings.Contains(err.Error(), "default/object") {
		t.Errorf("got %v, want an error that names the object", err)
	}
}

func copyOf(all entries) entries {
	var copied entries
	for _, e := range all {
		copied = append(copied, *e.DeepCopy())
	}
	return copied
}

func FuzzMove(f *testing.F) {
	f.Add(`{"f:spec":{"f:a":{},"f:legacy":{}}}`, `{"f:spec":{"f:b":{}}}`, `{}`, true)
	f.Add(`{"f:spec":{"f:legacy":{}}}`, `{}`, `{"f:spec":{"f:legacy":{}}}`, true)
	f.Add(`{"f:p":{"k:{\"n\":\"a\"}":{".":{},"f:legacy":{}},"v:1":{},"i:3":{}}}`, `{"f:p":{"i:3":{}}}`, ``, false)
	f.Fuzz(func(t *testing.T, one, two, three string, same bool) {
		second := "b"
		if same {
			second = "a"
		}
		all := entries{
			entry("a", metav1.ManagedFieldsOperationUpdate, from, 1, one),
			entry(second, metav1.ManagedFieldsOperationUpdate, to, 2, two),
			entry("c", metav1.ManagedFieldsOperationApply, from, 3, three),
		}
		before := copyOf(all)
		got, changed, _, err := managedfields.Move(all, from, to, withoutLegacy)
		if diff := cmp.Diff(before, all); diff != "" {
			t.Fatalf("the caller's entries were changed (-before +after):\n%s", diff)
		}
		if err != nil {
			return
		}
		if !changed || managedfields.Names(got, from) {
			t.Fatal("an entry was not moved")
		}
		again, changed, _, err := managedfields.Move(got, from, to, withoutLegacy)
		if err != nil || changed || cmp.Diff(got, again) != "" {
			t.Fatalf("moving twice is not moving once: %v", err)
		}
		total := 0
		want := map[string]*fieldpath.Set{}
		for _, e := range before {
			set := read(t, e)
			if e.APIVersion == from {
				kept := fieldpath.NewSet()
				for p := range set.All() {
					if withoutLegacy(p) {
						kept.Insert(p.Copy())
					}
				}
				set = kept
			}
			if want[e.Manager] == nil {
				want[e.Manager] = fieldpath.NewSet()
			}
			want[e.Manager] = want[e.Manager].Union(set)
			total += set.Size()
		}
		owned := 0
		for _, e := range got {
			set := read(t, e)
			owned += set.Size()
			if total > 0 && !set.Equals(want[e.Manager]) {
				t.Fatalf("%s owns %s, want %s", e.Manager, set, want[e.Manager])
			}
			delete(want, e.Manager)
		}
		if owned == 0 {
			t.Fatal("nobody owns anything")
		}
		for manager, set := range want {
			if !set.Empty() {
				t.Fatalf("%s was forgotten: %s", manager, set)
			}
		}
		if _, err := json.Marshal(got); err != nil {
			t.Fatal(err)
		}
	})
}

func read(t *testing.T, e metav1.ManagedFieldsEntry) *fieldpath.Set {
	t.Helper()
	set := fieldpath.NewSet()
	if err := set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())); err != nil {
		t.Skip("the entry that stays cannot be read")
	}
	return set
}

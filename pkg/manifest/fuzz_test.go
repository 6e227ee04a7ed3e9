package manifest_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/manifest"
)

func seeds() []string {
	return []string{
		crontabs, "{\"a\": {\"b\": [1, {\"c\": \"x\"}]}}", "a: &x {b: 1}\nc: *x\n<<: *x\n", "- a: 'x\n  y'\n  b: |+\n    x\n\n- ? [k]\n  : v\n",
		"a:\r\n  b: \"\\u00e9\" # c\r\n", "\ufeffa: 1", "a: {b: 1, # c\n  d: !!str 2}\n", "a: x\u2028b\nc: 1\n", "\ta: b\n", "a:\n- b: 1\n  # c\n  d: 2\n- e",
	}
}

// FuzzApply: whatever the edits, each is skipped, or made and nothing else
// changes. The check is its own, by the values of the field.
func FuzzApply(f *testing.F) {
	for _, seed := range seeds() {
		for _, path := range []string{"a", "a.b", "a[1].c", "[0].b", "spec.versions[0].served", "x.y", "c"} {
			f.Add([]byte(seed), path, "new: text", false)
			f.Add([]byte(seed), path, "", true)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, path, value string, remove bool) {
		document, err := manifest.Parse(text)
		if err != nil {
			return
		}
		edit := manifest.Edit{Path: path, Set: value, Remove: remove}
		if len(value)%2 == 1 {
			edit.Set = len(value)%3 == 0
		}
		after, skipped, err := document.Apply([]manifest.Edit{edit})
		if err != nil {
			return
		}
		if len(skipped) > 0 {
			if !bytes.Equal(text, after) {
				t.Fatalf("skipped, but changed: %q", after)
			}
			return
		}
		if bytes.Equal(text, after) {
			return
		}
		changed, err := manifest.Parse(after)
		if err != nil {
			t.Fatalf("%q: %v", after, err)
		}
		if _, exact := changed.Find(path); exact == remove {
			t.Errorf("%q of %q: found %t", path, after, exact)
		}
		again, skipped, err := changed.Apply([]manifest.Edit{edit})
		if err != nil || len(skipped) > 0 || !bytes.Equal(after, again) {
			t.Errorf("%q again: %q, %v, %v", after, again, skipped, err)
		}
		if bytes.HasSuffix(text, []byte("\n")) != bytes.HasSuffix(after, []byte("\n")) {
			t.Errorf("the end of %q became that of %q", text, after)
		}
		if _, exact := document.Find(path); exact && !remove && bytes.Count(text, []byte("\n")) < bytes.Count(after, []byte("\n")) {
			t.Errorf("a scalar of %q was set in %q", text, after)
		}
		linesAreKept(t, text, after)
	})
}

// linesAreKept checks that all changed lines are next to each other, and that
// no comment got lost that stands alone outside of them.
func linesAreKept(t *testing.T, before, after []byte) {
	t.Helper()
	old, now := strings.SplitAfter(string(before), "\n"), strings.SplitAfter(string(after), "\n")
	for len(old) > 0 && len(now) > 0 && old[0] == now[0] {
		old, now = old[1:], now[1:]
	}
	for len(old) > 0 && len(now) > 0 && old[len(old)-1] == now[len(now)-1] {
		old, now = old[:len(old)-1], now[:len(now)-1]
	}
	if len(now) > len(old)+strings.Count(string(after), ":") {
		t.Errorf("%d lines became %d", len(old), len(now))
	}
}

// FuzzFind: no path and no text makes it panic or leave the document, and what
// it finds in a document without aliases is in the value.
func FuzzFind(f *testing.F) {
	for _, seed := range seeds() {
		for _, path := range []string{"", "a.b", "[0].b", "spec.versions[1].name", "a[", "]..", "a[1].c"} {
			f.Add([]byte(seed), path)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		document, err := manifest.Parse(text)
		if err != nil {
			return
		}
		place, exact := document.Find(path)
		if place.Line < 1 || place.Line > bytes.Count(text, []byte("\n"))+1 || place.Column < 1 || place.Column > len(place.Text)+1 {
			t.Errorf("%q in %q: %+v", path, text, place)
		}
		var value any
		if exact && path != "" && yaml.Unmarshal(text, &value) == nil && reflect.ValueOf(value).Kind() != reflect.Map && reflect.ValueOf(value).Kind() != reflect.Slice {
			t.Errorf("%q in %q: found in a scalar", path, text)
		}
	})
}

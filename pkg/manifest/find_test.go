package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/manifest"
)

func TestFind(t *testing.T) {
	t.Parallel()
	const text = `# é
spec:
  "é ü": {x: [1, {y.z: 2}]}
  versions:
  - name: v1
    schema: {properties: {"a[b].c": {type: x}, a: 1}}
  -
    name: v2
    <<: [*nothing, {merged: here}]
`
	for path, want := range map[string]string{
		"":                        "2:1 true spec:",
		"spec":                    "2:1 true spec:",
		"spec.versions":           "4:3 true   versions:",
		"spec.versions[0]":        "5:5 true   - name: v1",
		"spec.versions[1].name":   "8:5 true     name: v2",
		"spec.versions[1].merged": "9:21 true     <<: [*nothing, {merged: here}]",
		"spec.versions[2].name":   "4:3 false   versions:",
		"spec.versions[-1]":       "4:3 false   versions:",
		"spec.versions.name":      "4:3 false   versions:",
		"spec[é ü].x[1][y.z]":     `3:19 true   "é ü": {x: [1, {y.z: 2}]}`,
		"spec[é ü].x[1].y.z":      `3:19 true   "é ü": {x: [1, {y.z: 2}]}`,
		"spec[é ü].x[1].y.q":      `3:18 false   "é ü": {x: [1, {y.z: 2}]}`,
		"spec.versions[0].schema.properties[a[b].c].type": `6:38 true     schema: {properties: {"a[b].c": {type: x}, a: 1}}`,
		"spec.versions[0].schema.properties[a].type":      `6:48 false     schema: {properties: {"a[b].c": {type: x}, a: 1}}`,
		"status":   "2:1 false spec:",
		"[":        "2:1 false spec:",
		"spec.":    "2:1 false spec:",
		"..":       "2:1 false spec:",
		"spec[]]]": "2:1 false spec:",
	} {
		for _, layout := range []struct{ name, text string }{
			{"as it is", text}, {"CRLF", strings.ReplaceAll(text, "\n", "\r\n")}, {"byte order mark", "\ufeff" + text},
		} {
			document, err := manifest.Parse([]byte(strings.Replace(layout.text, "# é", "x: &nothing {}", 1)))
			if err != nil {
				t.Fatal(err)
			}
			place, exact := document.Find(path)
			want := want
			if strings.HasPrefix(want, "2:1 ") && path != "spec" && path != "spec." && path != "spec[]]]" {
				want = strings.NewReplacer("2:1", "1:1", "spec:", "x: &nothing {}").Replace(want)
			}
			if got := fmt.Sprintf("%d:%d %t %s", place.Line, place.Column, exact, place.Text); got != want {
				t.Errorf("%s, %s: got %q, want %q", path, layout.name, got, want)
			}
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":              "an empty document",
		"# nothing\n":   "an empty document",
		"a: [":          "not valid YAML: yaml: line 1: did not find expected node content",
		"a\n---\nb\n":   "more than one document",
		"a: \xff":       "not a text in UTF-8",
		"a: \x00":       "not valid YAML: yaml: control characters are not allowed",
		"a: 1\nb: *x\n": "not valid YAML: yaml: unknown anchor 'x' referenced",
	} {
		if _, err := manifest.Parse([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestApplyErrors: positions can be found in what Kubernetes does not read.
func TestApplyErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a: 1\na: 2\n", bomb(), "a: &a [*a]\n"} {
		document, err := manifest.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := document.Apply([]manifest.Edit{set("a", 3)}); err == nil || !strings.HasPrefix(err.Error(), "not valid YAML: ") {
			t.Errorf("%.20s: %v", text, err)
		}
	}
}

// bomb is a document of some hundred bytes with 9^20 values.
func bomb() string {
	text := "a: &a [x,x,x,x,x,x,x,x,x]\nm: &m0 {x: 1}\n"
	for c := 'b'; c < 'v'; c++ {
		if c == 'm' {
			continue
		}
		before := c - 1
		if before == 'm' {
			before--
		}
		text += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", before), 9), ","))
	}
	for i := 1; i < 30; i++ {
		text += fmt.Sprintf("m%d: &m%d {<<: [*m%d, *m%d, *m%d]}\n", i, i, i-1, i-1, i-1)
	}
	return text
}

func TestAliasBombCostsNothing(t *testing.T) {
	t.Parallel()
	document, err := manifest.Parse([]byte(bomb()))
	if err != nil {
		t.Fatal(err)
	}
	if place, exact := document.Find("u[8][8][8][8][8][8]"); !exact || place.Line != 16 {
		t.Errorf("got %+v, %t", place, exact)
	}
	if _, exact := document.Find("m29.nothing"); exact {
		t.Error("found what is not there")
	}
	if place, exact := document.Find("m29.x"); !exact || place.Line != 2 {
		t.Errorf("got %+v, %t", place, exact)
	}
}

// TestManyEdits: the time must not grow with the square of the versions.
func TestManyEdits(t *testing.T) {
	t.Parallel()
	const versions = 10_000
	var text strings.Builder
	text.WriteString("spec:\n  versions:\n")
	var edits []manifest.Edit
	for i := range versions {
		fmt.Fprintf(&text, "  - name: v%d\n    served: true # %d\n    storage: %t\n    schema:\n      x: 1\n", i, i, i == 0)
		path := fmt.Sprintf("spec.versions[%d].", i)
		edits = append(edits, set(path+"served", false), set(path+"deprecated", true), remove(path+"schema"))
	}
	document, err := manifest.Parse([]byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	after, skipped, err := document.Apply(edits)
	if err != nil || len(skipped) > 0 {
		t.Fatal(err, len(skipped))
	}
	if lines := strings.Count(string(after), "\n"); lines != 2+4*versions || strings.Count(string(after), "    deprecated: true\n") != versions {
		t.Errorf("%d lines", lines)
	}
	if place, exact := document.Find("spec.versions[9999].storage"); !exact || place.Line != 2+5*versions-2 {
		t.Errorf("got %+v, %t", place, exact)
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	const want = "--- crd.yaml\n+++ crd.yaml\n@@ -1,2 +1,2 @@\n-a: 1\n+a: 2\n b: 1\n"
	if got := manifest.Diff("crd.yaml", []byte("a: 1\nb: 1\n"), []byte("a: 2\nb: 1\n")); got != want {
		t.Errorf("got %q", got)
	}
	// The second hunk starts where it does in the new text.
	old := "1\n2\n3\n4\n" + strings.Repeat("x\n", 20) + "5\n"
	now := "one\n2\nthree\nand\n4\n" + strings.Repeat("x\n", 20) + "five\n"
	const two = "--- a\n+++ a\n@@ -1,6 +1,7 @@\n-1\n+one\n 2\n-3\n+three\n+and\n 4\n x\n x\n@@ -22,4 +23,4 @@\n x\n x\n x\n-5\n+five\n"
	if got := manifest.Diff("a", []byte(old), []byte(now)); got != two {
		t.Errorf("got %q", got)
	}
	if got := manifest.Diff("crd.yaml", []byte("a\n"), []byte("a\n")); got != "" {
		t.Errorf("got %q", got)
	}
}

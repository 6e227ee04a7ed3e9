package manifestuse_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crdver/kubectl-crdver/pkg/apis/crdver/v1alpha1"
	"github.com/crdver/kubectl-crdver/pkg/crd"
	"github.com/crdver/kubectl-crdver/pkg/manifestuse"
	"github.com/crdver/kubectl-crdver/pkg/usage"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func wanted() manifestuse.Wanted {
	return manifestuse.Wanted{Group: "example.com", Kind: "CronTab", Versions: []string{"v1beta1"}}
}

// TestFind is about where in a text places are, and what they are.
func TestFind(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"CRLF and byte order mark": {"\ufeffapiVersion: example.com/v1beta1\r\nkind: CronTab\r\n", "1:1 names"},
		"not UTF-8":                {"x: \xff\xfe\napiVersion: example.com/v1beta1\nkind: CronTab\n", "2:1 names"},
		"characters before it":     {"{\"ä\": {apiVersion: example.com/v1beta1, kind: CronTab}}", "1:8 names"},
		"kind in nested braces":    {"{apiVersion: example.com/v1beta1, spec: {kind: CronTab}, kind: Other}", ""},
		"JSON in a string":         {`x: "{\"kind\":\"CronTab\",\"apiVersion\":\"example.com/v1beta1\"}"`, "1:27 names"},
		"keys beside each other":   {"{\n  apiVersion: example.com/v1beta1,\n  kind: CronTab, spec: {}\n}", "2:3 names"},
		"nested kind":              {"apiVersion: example.com/v1beta1\nspec:\n  kind: CronTab\n", "1:1 mentions"},
		"kind of the outer":        {"kind: CronTab\nspec:\n  ref:\n    apiVersion: example.com/v1beta1\n    kind: Other\n", ""},
		"list item":                {"a:\n- kind: CronTab\n  apiVersion: example.com/v1beta1\n- kind: Other\n", "3:3 names"},
		"list at the same column":  {"kind: CronTab\nlist:\n- kind: Other\napiVersion: example.com/v1beta1\n", "4:1 names"},
		"the next document":        {"apiVersion: example.com/v1beta1\n---\nkind: CronTab\n", "1:1 mentions"},
		"list of the kind":         {"apiVersion: example.com/v1beta1\nkind: CronTabList\n", "1:1 names"},
		"templated kind":           {"apiVersion: example.com/v1beta1\nkind: {{ .kind }}\n", "1:1 mentions"},
		"comment":                  {"# apiVersion: example.com/v1beta1\n", "1:15 mentions"},
		"label":                    {"labels:\n  example.com/v1beta1: x\n", "2:3 mentions"},
		"group of others":          {"apiVersion: my-example.com/v1beta1\nkind: CronTab\n", ""},
		"longer version":           {"apiVersion: example.com/v1beta1x\nkind: CronTab\n", ""},
		"target without kind":      {"target:\n  group: example.com\n  version: v1beta1\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, place := range manifestuse.Find("a.yaml", []byte(test.text), wanted()) {
				got = append(got, fmt.Sprintf("%d:%d %s", place.Line, place.Column, place.What))
			}
			if strings.Join(got, ", ") != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// FuzzFind checks that no text stops the finder, that places are in the text, and
// that each "GROUP/VERSION" of a text with only that kind is accounted for.
func FuzzFind(f *testing.F) {
	f.Add("apiVersion: example.com/v1beta1\nkind: CronTab\n")
	f.Add("\ufeff{\"apiVersion\":\"example.com/v1beta1\",\"kind\":\"CronTab\"}\r\n--- \n- - apiVersion: example.com/{{")
	f.Add("a:\n- kind: {{ x }}\n  apiVersion: example.com/v1beta1\n{{ end }}\nversion: v1beta1\ngroup: example.com\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + 1
		for _, place := range manifestuse.Find("a.yaml", []byte(text), wanted()) {
			if place.Line < 1 || place.Line > lines || place.Column < 1 {
				t.Errorf("%d:%d of %d lines", place.Line, place.Column, lines)
			}
		}
		if !strings.Contains(text, "ind") { // No kind: all are mentions, none is dropped.
			spaced := strings.ReplaceAll(text, "example.com/v1beta1", " example.com/v1beta1 ")
			if got, want := len(manifestuse.Find("a.go", []byte(spaced), wanted())), strings.Count(text, "example.com/v1beta1"); got != want {
				t.Errorf("%d places, want %d", got, want)
			}
		}
	})
}

// extSecrets is the CRD of case 51.
func extSecrets(t *testing.T) crd.CRD {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "cases", "51-converter-dropped-by-project.yaml"))
	if err != nil {
		text = []byte(extSecretsCRD)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(text, definition); err != nil {
		t.Fatal(err)
	}
	return crd.Live(definition)
}

const extSecretsCRD = `
metadata: {name: extsecrets.c51.example.dev}
spec:
  group: c51.example.dev
  scope: Namespaced
  names: {plural: extsecrets, singular: extsecret, kind: ExtSecret, listKind: ExtSecretList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}
  - {name: v1beta1, served: false, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}
`

// TestCase51 is about 1200 manifests in Git that still name a version which is not
// served any more: each is found, each can be rewritten, and nothing else changes.
func TestCase51(t *testing.T) {
	t.Parallel()
	const count = 1200
	folder := t.TempDir()
	manifest := []byte("# external secret\r\nkind: ExtSecret\r\napiVersion: 'c51.example.dev/v1beta1'   # why\r\nmetadata: {name: db}\r\nspec: {size: 1}\r\n")
	for i := range count {
		team := filepath.Join(folder, fmt.Sprintf("team-%d", i%40))
		if err := os.MkdirAll(team, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(team, fmt.Sprintf("%d.yaml", i)), manifest, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	target := usage.Target{CRD: extSecrets(t), Versions: []string{"v1beta1"}}
	tree := manifestuse.Tree{Names: []string{folder}}
	found, err := manifestuse.Look(t.Context(), tree, []usage.Target{target})
	if err != nil {
		t.Fatal(err)
	}
	rows, unlooked, err := found.Collect(t.Context(), target)
	if err != nil || len(unlooked) > 0 || len(rows) != count {
		t.Fatalf("%d rows, not looked at %v, %v", len(rows), unlooked, err)
	}
	for _, row := range rows {
		if !strings.HasSuffix(row.Who, ".yaml:3:1") || row.Proves != v1alpha1.ProvesReference {
			t.Fatalf("%+v", row)
		}
	}
	rewriter, err := manifestuse.NewRewriter(target.CRD, manifestuse.WantedOf(target), "v1")
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Replace(manifest, []byte("v1beta1"), []byte("v1"), 1)
	done := 0
	_, err = tree.Each(t.Context(), func(file string, content []byte) error {
		result, err := rewriter.Rewrite(t.Context(), file, content)
		if bytes.Equal(result.After, want) {
			done += result.Done
		}
		return err
	})
	if err != nil || done != count {
		t.Errorf("%d rewritten, %v", done, err)
	}
}

// TestNotLooked is about what cannot be read, and about an interrupt.
func TestNotLooked(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{"utf16.yaml": "\xff\xfea\x00", "binary": "\x7fELF\x00", "text.yaml": "a: b"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(folder, filepath.Join(folder, "loop")); err != nil {
		t.Fatal(err)
	}
	tree := manifestuse.Tree{Names: []string{folder}}
	walked, err := tree.Each(t.Context(), func(string, []byte) error { return nil })
	if err != nil || walked.Files != 1 || walked.Binary != 1 || walked.Links != 1 || len(walked.Unread) != 1 {
		t.Errorf("%+v, %v", walked, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tree.Each(ctx, func(string, []byte) error { return nil }); err == nil {
		t.Error("no error after an interrupt")
	}
}

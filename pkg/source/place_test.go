package source

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/crdver/kubectl-crdver/pkg/crd"
)

// TestDocuments: what is handed out is what the file holds, at that place.
func TestDocuments(t *testing.T) {
	a, b := manifest("as.example.com", "v1"), manifest("bs.example.com", "v1")
	asJSON := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":%q}}`, name)
	}
	list := `{"kind":"List","apiVersion":"v1","items":[` + asJSON("x") + `,{"kind":"List","apiVersion":"v1","items":[{},` + asJSON("y") + "]}]}\n"
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"one":        {a, []string{"as.example.com 1 "}},
		"two":        {a + "---\n" + b, []string{"as.example.com 1 ", "bs.example.com 12 "}},
		"mark":       {"\ufeff# first\n" + a + "--- # c\n" + b, []string{"as.example.com 1 ", "bs.example.com 13 "}},
		"returns":    {strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"), []string{"as.example.com 1 ", "bs.example.com 12 "}},
		"at marker":  {"--- " + asJSON("x") + "\n---\n" + b, []string{"x 1 ", "bs.example.com 2 "}},
		"list":       {"\n" + list + "---\n" + b, []string{"x 1 items[0]", "y 1 items[1].items[1]", "bs.example.com 3 "}},
		"JSON":       {"\n" + asJSON("x") + "\n", []string{"x 1 "}},
		"JSON lines": {"\n" + asJSON("x") + "\n\n " + asJSON("y") + asJSON("z"), []string{"x 2 ", "y 4 ", "z 4 "}},
	} {
		t.Run(name, func(t *testing.T) {
			found, _, err := load(t, test.text)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, one := range found {
				document := one.Origin.Document
				got = append(got, fmt.Sprintf("%s %d %s", one.Name, document.Start, document.Item))
				if !strings.HasPrefix(test.text[document.Offset:], string(document.Text)) {
					t.Errorf("%s: not at %d", one.Name, document.Offset)
				}
				values, err := one.Origin.Values()
				if err != nil || values["kind"] != kindCRD {
					t.Errorf("%s: values %v, %v", one.Name, values, err)
				}
				if slim := Slim(one).Origin; slim.Document != nil || slim.JSON != nil {
					t.Errorf("%s: the slim copy holds the text", one.Name)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownFields(t *testing.T) {
	text := manifest("as.example.com", "v1") + "  - {name: v2, stored: true, schema: {openAPIV3Schema: {type: object, properties: {a.b: {typ: string}}}}}\nsurprise: 1\nstatus: {odd: 1}\n"
	found, _, err := load(t, text+"---\n"+strings.Replace(v1beta1Manifest, "version: v1\n", "version: v1\n  sort: 1\n", 1))
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"spec.versions[1].schema.openAPIV3Schema.properties.a.b.typ", "spec.versions[1].stored", "surprise"}, {"spec.sort"},
	}
	got := [][]string{found[0].Origin.UnknownFields, found[1].Origin.UnknownFields}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestInternal: conversion to v1 would hide that two places set a schema.
func TestInternal(t *testing.T) {
	text := strings.Replace(v1beta1Manifest, "  version: v1\n", "  versions:\n  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}\n", 1)
	found, _, err := load(t, text+"---\n"+manifest("as.example.com", "v1"))
	if err != nil {
		t.Fatal(err)
	}
	internal := found[0].Origin.Internal
	if internal == nil || internal.Spec.Validation == nil || internal.Spec.Versions[0].Schema == nil || internal.Spec.Version != "v1" ||
		internal.Spec.PreserveUnknownFields == nil || !*internal.Spec.PreserveUnknownFields || len(internal.Status.StoredVersions) != 0 {
		t.Errorf("internal %+v", internal)
	}
	if place := found[0].Origin.Document; !place.V1beta1 || !slices.Equal(place.Common, []string{"additionalPrinterColumns", "subresources", "validation"}) {
		t.Errorf("document %+v", place)
	}
	if found[1].Origin.Internal != nil || found[1].Origin.Document.V1beta1 {
		t.Error("a v1 manifest has an internal form")
	}
}

func TestWriteBack(t *testing.T) {
	a, b := manifest("as.example.com", "v1"), strings.ReplaceAll(manifest("bs.example.com", "v1"), "\n", "\r\n")
	whole := "\ufeff# head\n" + a + "---\n" + b + "--- # last\nkind: x"
	tree(t, map[string]string{"crds.yaml": whole})
	if err := os.Chmod("crds.yaml", 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("crds.yaml", "link.yaml"); err != nil {
		t.Fatal(err)
	}
	found, _, err := loadFiles(t, Files{FilenameOptions: resource.FilenameOptions{Filenames: []string{"link.yaml"}}})
	if err != nil {
		t.Fatal(err)
	}
	var replacements []Replacement
	for _, one := range found {
		if err := CanWriteBack(one.Origin); err != nil {
			t.Error(err)
		}
		text := strings.ReplaceAll(string(one.Origin.Document.Text), "served: true", "served: false")
		replacements = append([]Replacement{{Document: one.Origin.Document, Text: []byte(text)}}, replacements...)
	}
	want := strings.ReplaceAll(whole, "served: true", "served: false")
	if before, after, err := Replaced("link.yaml", replacements); err != nil || string(before) != whole || string(after) != want {
		t.Errorf("%v (-want +got):\n%s", err, cmp.Diff(want, string(after)))
	}
	if err := WriteBack("link.yaml", replacements); err != nil {
		t.Fatal(err)
	}
	now, err := os.ReadFile("crds.yaml")
	if err != nil || string(now) != want {
		t.Errorf("%v (-want +got):\n%s", err, cmp.Diff(want, string(now)))
	}
	info, err := os.Lstat("link.yaml")
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
	if info, err = os.Stat("crds.yaml"); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	// The same again is for a file that is not there any more.
	const changed = "writing link.yaml: it changed since it was read: run the command again"
	if err := WriteBack("link.yaml", replacements); err == nil || err.Error() != changed {
		t.Errorf("changed: %v", err)
	}
	if err := os.WriteFile("crds.yaml", []byte(whole+"\nmore: text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	last := &crd.Document{Text: []byte(" # last\nkind: x"), Offset: int64(strings.Index(whole, " # last"))}
	if err := WriteBack("link.yaml", []Replacement{{Document: last}}); err == nil || err.Error() != changed {
		t.Errorf("longer: %v", err)
	}
	if err := WriteBack("link.yaml", append(replacements, replacements[0])); err == nil || !strings.Contains(err.Error(), "two replacements") {
		t.Errorf("twice: %v", err)
	}
	if err := WriteBack("nothing.yaml", nil); err == nil {
		t.Error("no error for a file that does not exist")
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestCanWriteBack(t *testing.T) {
	for want, origin := range map[string]crd.Origin{
		"it was read from a cluster":          {},
		"it was read from standard input":     {File: "-", Document: &crd.Document{}},
		"it was read from a URL":              {File: "https://example.com/crd.yaml", Document: &crd.Document{}},
		"it is the output of a kustomization": {File: "base"},
		"the file is in UTF-16":               {File: "crd.yaml", Document: &crd.Document{Offset: -1}},
	} {
		if err := CanWriteBack(origin); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

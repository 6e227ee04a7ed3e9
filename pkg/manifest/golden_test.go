package manifest_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/crdver/kubectl-crdver/pkg/goldenfile"
	"github.com/crdver/kubectl-crdver/pkg/manifest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden makes the edits of each folder of testdata/manifest: what changes,
// and what is skipped, is in its want.diff.
func TestGolden(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob("../../testdata/manifest/*")
	if err != nil || len(folders) == 0 {
		t.Fatal(folders, err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			read := func(name string) []byte {
				text, err := os.ReadFile(filepath.Join(folder, name))
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			before := read("before.yaml")
			var edits []manifest.Edit
			if err := yaml.UnmarshalStrict(read("edits.yaml"), &edits); err != nil {
				t.Fatal(err)
			}
			for _, text := range [][]byte{before, bytes.ReplaceAll(before, []byte("\n"), []byte("\r\n")), bytes.TrimSuffix(before, []byte("\n"))} {
				document, err := manifest.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				after, skipped, err := document.Apply(edits)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Count(after, []byte("\r")) != bytes.Count(after, []byte("\n")) && bytes.Contains(text, []byte("\r")) {
					t.Error("the line breaks are mixed")
				}
				after = bytes.ReplaceAll(after, []byte("\r\n"), []byte("\n"))
				if !bytes.HasSuffix(text, []byte("\n")) {
					if bytes.HasSuffix(after, []byte("\n")) {
						t.Error("the text got a line break at its end")
					}
					after = append(after, '\n')
				}
				got := manifest.Diff("crd.yaml", before, after)
				for _, one := range skipped {
					got += fmt.Sprintf("skipped %s: %s\n", one.Path, one.Reason)
				}
				goldenfile.Compare(t, *update, filepath.Join(folder, "want.diff"), got)
			}
		})
	}
}
